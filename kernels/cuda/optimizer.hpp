#pragma once
// AdamW and LAMB over one tensor on the device, to the reference's bits (those of NaNs apart).
// Meanings as in kernels/backend.hpp. All pointers are to device memory, those in UpdateBuffers
// too, but for its trust_ratio and hash_before: they are ignored, what they ask for goes to words
// of the device instead.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::cuda {

/// hash: set to the state hash of what was written; hash_before: to that of what was read, or null.
void update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                  std::uint64_t* hash, std::uint64_t* hash_before, cudaStream_t stream);

/// What update_lamb() needs as scratch memory for so many elements.
std::size_t lamb_scratch_bytes(std::int64_t count);
/// hash: set to the state hash of what was written. trust_ratio: set, or null. scratch: aligned to
/// 8.
void update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                 std::uint64_t* hash, float* trust_ratio, void* scratch, cudaStream_t stream);

}  // namespace swarmpi::kernels::cuda
