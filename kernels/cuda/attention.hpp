#pragma once
// Causal attention on the device, tile by tile: never a matrix of all pairs. Shapes and meanings as
// in kernels/backend.hpp; all pointers are the device's. Results have the same bits each time:
// nothing is added in an order that depends on timing.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

inline constexpr std::int64_t kWidestHead = 256;

/// What the backward pass needs for `delta`: (B, H, T), the products of queries' results with their
/// gradients.
std::size_t attention_scratch_bytes(const AttentionShape& shape);

/// Factors of products are rounded to bf16 where qkv is bf16. Errors of launches are left to
/// cudaGetLastError().
void attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                       const AttentionShape& shape, cudaStream_t stream);
void attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                        const float* log_sum, float* delta, const AttentionShape& shape,
                        cudaStream_t stream);

/// The same without tensor cores, for what they do not take: fp32, and heads that are odd or wide.
/// REQUIRES: head_width <= kWidestHead.
void plain_attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv,
                             const AttentionShape& shape, cudaStream_t stream);
void plain_attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                              const float* log_sum, float* delta, const AttentionShape& shape,
                              cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
