#pragma once
// Rules 2 to 4 of the order-free sums, see backend.hpp. The same bits as the reference.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

Contribution add_gradient(std::int64_t* sums, Write write, ConstMatrix gradient,
                          std::int16_t exponent, int bits, Scratch& scratch);
Contribution add_row_gradients(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                               std::int16_t exponent, int bits, Scratch& scratch);
/// Rows of the sums of a part of a tensor, `stride` integers apart.
struct SumsPart {
  std::int64_t* data;
  std::int64_t stride;
};
/// The integers of a part of a gradient replace what is in the sums, past the caches or not, or are
/// added, or taken back: on the calling thread, whatever they are. The largest magnitude first.
enum class PartWrite : std::uint8_t { set, stream, add, subtract };
std::uint32_t largest_magnitude_of(ConstMatrix part);
void write_part(const SumsPart& sums, PartWrite write, ConstMatrix part, std::int16_t exponent,
                int bits);
/// How sums of so many elements are set: past the caches where they would only fill them.
PartWrite set_of(std::int64_t count);
/// Takes back what add_gradient() of the same gradient added.
void subtract_gradient(std::int64_t* sums, ConstMatrix gradient, std::int16_t exponent, int bits,
                       Scratch& scratch);
void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                double quantum_per_token);

}  // namespace swarmpi::kernels::native
