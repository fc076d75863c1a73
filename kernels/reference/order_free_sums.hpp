#pragma once
// Gradients to integers and back: rules 2 to 4 of kernels/fixed_point.hpp. Meanings as in
// kernels/backend.hpp.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

Contribution add_gradient(std::int64_t* sums, ConstMatrix gradient, std::int16_t exponent,
                          int bits);

void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                int q, std::int64_t tokens);

}  // namespace swarmpi::kernels::reference
