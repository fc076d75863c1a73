#pragma once
// Gradients to integers and back: rules 2 to 4 of kernels/fixed_point.hpp. Meanings as in
// kernels/backend.hpp.

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

Contribution add_gradient(std::int64_t* sums, Write write, ConstMatrix gradient,
                          std::int16_t exponent, int bits);

Contribution add_row_gradients(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                               std::int16_t exponent, int bits);

void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                double quantum_per_token);

}  // namespace swarmpi::kernels::reference
