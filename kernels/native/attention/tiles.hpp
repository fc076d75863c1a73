#pragma once
// Causal attention of one head in the tiles of AMX: bf16 factors, all sums, scores and exponentials
// in fp32, probabilities and their gradients rounded to bf16 for the products that follow.

#include <initializer_list>

#include "kernels/native/attention/head.hpp"

namespace swarmpi::kernels::native {

/// Rows that this worker will need for its next head. They are fetched beside this one's.
using NextRows = std::initializer_list<ConstFactor>;

/// Of the memory that both ways take.
std::size_t attention_tiles_bytes(const AttentionShape& shape);

/// out (T, D), and log_sum (T) of the exponentials. REQUIRES: may_use_tiles().
void attention_tiles_forward(const FactorMatrix& out, float* log_sum, const HeadFactors& head,
                             const NextRows& next, const AttentionShape& shape, char* memory);
void attention_tiles_backward(const HeadGradients& gradients, const ConstFactor& dout,
                              const HeadFactors& head, const ConstFactor& out, const float* log_sum,
                              const NextRows& next, const AttentionShape& shape, char* memory);

}  // namespace swarmpi::kernels::native
