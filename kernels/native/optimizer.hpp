#pragma once
// AdamW and LAMB, see backend.hpp. The same bits as the reference.

#include <span>

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

std::uint64_t update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                           Scratch& scratch);
/// State hashes of what an update read, if that is asked for, and of what it wrote.
struct UpdateHashes {
  std::uint64_t before = 0, after = 0;

  UpdateHashes& operator+=(const UpdateHashes& other) {
    before += other.before;
    after += other.after;
    return *this;
  }
};
/// The same for elements [first, end) of the buffers, on the calling thread: the hashes of all
/// parts add up to those of the whole.
UpdateHashes update_adamw_part(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                               std::int64_t first, std::int64_t end);
std::uint64_t update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                          Scratch& scratch);

// Hashes of what an update does not write but passes read.
std::uint64_t hash_weights(const float* weights, std::int64_t count, std::int64_t first_index,
                           Scratch& scratch);
std::uint64_t hash_bytes(std::span<const std::byte> bytes, Scratch& scratch);

}  // namespace swarmpi::kernels::native
