#pragma once
// Initial values of the weights, as GPT-2 has them (Radford et al., 2019): each a function of seed,
// tensor and element alone, in portable arithmetic.

#include <cstdint>

#include "config/config.hpp"
#include "model/tensors.hpp"

namespace swarmpi {

/// Writes the tensor's initial values to `values` (rows, columns): matrices normal with deviation
/// 0.02, those that write to the residual stream 0.02 / sqrt(2 layers), those of learned boundaries
/// 1 / sqrt(columns), which keeps the size of what passes; norm weights 1, all else 0.
void set_initial_values(float* values, const TensorInfo& tensor, const ModelConfig& model,
                        std::uint64_t seed);

}  // namespace swarmpi
