#pragma once
// The loss of logits and their gradients, row by row. All pointers are of device memory.

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// losses (R) = -log softmax(logits)[target], nats; 0 where there is no target (kNoTarget).
/// dlogits, unless it is empty: softmax - onehot, rounded, zeros without a target. It may be the
/// logits themselves.
void cross_entropy(double* losses, FactorMatrix dlogits, ConstMatrix logits,
                   const std::int32_t* targets, cudaStream_t stream);

/// total = or += the sum of the losses, in a fixed order. All NaNs are one.
void sum_losses(double* total, const double* losses, std::int64_t count, bool add,
                cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
