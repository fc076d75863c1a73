#pragma once
// Coded arrays, see backend.hpp. The same bits as the reference.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::native {

void encode(std::byte* coded, ConstMatrix x, const Coding& coding);
void decode(Matrix x, const std::byte* coded, const Coding& coding);

}  // namespace swarmpi::kernels::native
