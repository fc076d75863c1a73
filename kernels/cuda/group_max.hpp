#pragma once
// Maxout boundaries, as in kernels/backend.hpp, with the reference's bits. All pointers are of
// device memory.

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// y (R, G) is the largest of each group of neighbouring columns of x.
void group_max_forward(Matrix y, ConstMatrix x, cudaStream_t stream);
/// dx is set: dy where the largest stands, else 0.
void group_max_backward(Matrix dx, ConstMatrix dy, ConstMatrix x, cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
