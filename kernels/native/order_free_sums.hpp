#pragma once
// Rules 2 to 4 of the order-free sums, see backend.hpp. The same bits as the reference.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

Contribution add_gradient(std::int64_t* sums, Write write, ConstMatrix gradient,
                          std::int16_t exponent, int bits, Scratch& scratch);
Contribution add_row_gradients(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                               std::int16_t exponent, int bits, Scratch& scratch);
/// Takes back what add_gradient() of the same gradient added.
void subtract_gradient(std::int64_t* sums, ConstMatrix gradient, std::int16_t exponent, int bits,
                       Scratch& scratch);
void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                double quantum_per_token);

}  // namespace swarmpi::kernels::native
