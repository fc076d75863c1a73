#pragma once
// AdamW and LAMB, see backend.hpp. The same bits as the reference.

#include <span>

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

std::uint64_t update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                           Scratch& scratch);
std::uint64_t update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                          Scratch& scratch);

// Hashes of what an update does not write but passes read.
std::uint64_t hash_weights(const float* weights, std::int64_t count, std::int64_t first_index,
                           Scratch& scratch);
std::uint64_t hash_bytes(std::span<const std::byte> bytes, Scratch& scratch);

}  // namespace swarmpi::kernels::native
