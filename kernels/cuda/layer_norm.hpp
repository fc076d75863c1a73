#pragma once
// LayerNorm over rows, as in kernels/backend.hpp. All pointers are of device memory; fastest where
// rows are aligned to 16 bytes.

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// y = normalised x * weight + bias, rounded; mean, rstd: (R).
void layer_norm_forward(FactorMatrix y, float* mean, float* rstd, ConstMatrix x,
                        const float* weight, const float* bias, cudaStream_t stream);

/// What layer_norm_backward() needs as scratch, aligned to 16 bytes.
std::int64_t layer_norm_scratch_floats(std::int64_t rows, std::int64_t columns);

/// dx += gradient through the norm; dx_factor: a copy of it, rounded, or empty. The gradients of
/// weight and bias are summed over fixed blocks of rows, then over blocks in a fixed order.
void layer_norm_backward(Matrix dx, FactorMatrix dx_factor, float* weight_gradient,
                         float* bias_gradient, Write write, ConstMatrix dy, ConstMatrix x,
                         const float* mean, const float* rstd, const float* weight, float* scratch,
                         cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
