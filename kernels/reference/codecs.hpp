#pragma once
// Coded arrays: the rule of kernels/codec_element.hpp, element after element. Meanings as in
// kernels/backend.hpp.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

void encode(std::byte* coded, ConstMatrix x, const Coding& coding);

void decode(Matrix x, const std::byte* coded, const Coding& coding);

}  // namespace swarmpi::kernels::reference
