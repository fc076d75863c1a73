#pragma once
// AdamW and LAMB, see backend.hpp. The same bits as the reference.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

std::uint64_t update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                           Scratch& scratch);
std::uint64_t update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                          Scratch& scratch);

}  // namespace swarmpi::kernels::native
