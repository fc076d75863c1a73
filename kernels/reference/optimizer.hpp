#pragma once
// AdamW and LAMB over one tensor. Meanings as in kernels/backend.hpp.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

std::uint64_t update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters);
std::uint64_t update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters);

}  // namespace swarmpi::kernels::reference
