#pragma once
// Element by element: biases, GELU and its slope, copies, conversions. Bits are those of the native
// kernels. All pointers are of device memory; fastest where rows are aligned to 16 bytes. What is
// read may be what is written, element for element.

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// y += bias, unless it is null.
void add_bias(Matrix y, const float* bias, cudaStream_t stream);
/// y = product + bias, rounded; bias may be null.
void bias_to_factor(FactorMatrix y, ConstMatrix product, const float* bias, cudaStream_t stream);
/// pre += bias, unless it is null; activated = gelu(pre).
void bias_gelu(Matrix pre, FactorMatrix activated, const float* bias, cudaStream_t stream);
/// dpre = product * gelu'(pre), rounded; dpre may be the product.
void scale_by_gelu_slope(FactorMatrix dpre, ConstMatrix product, ConstMatrix pre,
                         cudaStream_t stream);
/// y = (y + bias) + residual; bias may be null.
void add_residual(Matrix y, ConstMatrix residual, const float* bias, cudaStream_t stream);

void copy(Matrix to, ConstMatrix from, cudaStream_t stream);
void copy_factor(FactorMatrix to, ConstMatrix from, cudaStream_t stream);
/// The same for rows of bf16 that are no factor yet.
void to_bf16(std::uint16_t* to, std::int64_t to_stride, const float* from, std::int64_t rows,
             std::int64_t columns, std::int64_t from_stride, cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
