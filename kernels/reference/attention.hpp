#pragma once
// Causal multi-head attention, 64 queries at a time. Shapes and meanings as in kernels/backend.hpp.
// Sums: scores over the head's columns, outputs and dq over keys, dk and dv over queries, all in
// index order (dk and dv: in 64s).

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

/// Elements of scratch that both need.
std::int64_t attention_scratch(std::int64_t context);

template <class S>
void attention_forward(MatrixView<S> out, S* log_sum, MatrixView<const S> qkv,
                       const AttentionShape& shape, Precision precision, S* scratch);

template <class S>
void attention_backward(MatrixView<S> dqkv, MatrixView<const S> dout, MatrixView<const S> qkv,
                        MatrixView<const S> out, const S* log_sum, const AttentionShape& shape,
                        Precision precision, S* scratch);

}  // namespace swarmpi::kernels::reference
