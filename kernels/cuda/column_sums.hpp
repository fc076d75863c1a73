#pragma once
// Sums of columns: gradients of biases. Over fixed blocks of rows, then over these blocks in a
// fixed order, the same for both elements. All pointers are of device memory.

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// What column_sums() needs as scratch, aligned to 16 bytes.
std::int64_t column_sums_scratch_floats(std::int64_t rows, std::int64_t columns);

/// sums (columns) = or += the column sums of dy.
void column_sums(float* sums, Write write, ConstFactor dy, float* scratch, cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
