#pragma once
// Gradients to integers and back on the device: rules 2 to 4 of kernels/fixed_point.hpp, to the
// reference's bits. Meanings as in kernels/backend.hpp. All pointers are to device memory, aligned
// as their elements; wide loads are used where a matrix is aligned to 16 bytes.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// magnitude: set to the magnitude_bits() of the largest element, 0 where there is none. measured()
/// of it is the contribution that the host wants to know.
void measure(std::uint32_t* magnitude, ConstMatrix gradient, cudaStream_t stream);

/// Adds the gradient to `sums` (dense, rows * columns) unless measured(*magnitude, exponent) is
/// flagged. With Write::set `sums` is not read: what was there counts as zero.
void add_measured(std::int64_t* sums, Write write, ConstMatrix gradient,
                  const std::uint32_t* magnitude, std::int16_t exponent, int bits,
                  cudaStream_t stream);

/// The same with Write::add where row i of the gradient is that of row rows[i], each at most once.
void add_measured_rows(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                       const std::uint32_t* magnitude, std::int16_t exponent, int bits,
                       cudaStream_t stream);

/// gradient: (count), or null; squares: (ceil(count / 4096)).
void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                double quantum_per_token, cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
