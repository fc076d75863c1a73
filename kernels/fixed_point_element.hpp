#pragma once
// One element of the order-free sums (fixed_point.hpp holds the rule). All backends use these, so
// their integers and their rounded gradients have equal bits for equal input. Everything
// vectorises, with SSE2 too.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/fixed_point.hpp"
#include "kernels/host_device.hpp"

namespace swarmpi::kernels {

/// Bits of |value|. Ordered as the magnitudes are, so a maximum over them finds max|g|; infinities
/// and NaNs are at or above kInfinityBits.
constexpr std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}
inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;

/// Least e with |value| < 2^e, from the bits of |value|: finite, denormal or not; kNoExponent for
/// zero.
constexpr std::int16_t least_exponent(std::uint32_t magnitude) {
  if (magnitude == 0) return kNoExponent;
  const int biased = static_cast<int>(magnitude >> 23);
  return static_cast<std::int16_t>(biased > 0 ? biased - 126 : std::bit_width(magnitude) - 149);
}

/// What a microbatch whose largest magnitude is `magnitude` does to a tensor with this exponent
/// (rule 2).
constexpr Contribution measured(std::uint32_t magnitude, std::int16_t exponent) {
  if (magnitude >= kInfinityBits) return {kNoExponent, true, false};
  const std::int16_t e = least_exponent(magnitude);
  const bool fits = e == kNoExponent || (exponent != kNoExponent && e <= exponent + kHeadroomBits);
  return {e, false, !fits};
}

/// 2^power as a double. Powers beyond +-1000 count as +-1000: no fp32 that is not flagged (or any
/// non-zero sum) tells them apart, and the product with zero stays zero.
constexpr double power_of_two(int power) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(std::clamp(power, -1000, 1000) + 1023)
                               << 52);
}

/// RNE(value) for |value| <= 2^51 while the rounding mode is to nearest: adding 1.5 * 2^52 leaves
/// the integer in the lowest bits of the sum.
SWARMPI_HOST_DEVICE inline std::int64_t nearest_integer(double value) {
  constexpr double kShift = 0x1.8p52;
  return std::bit_cast<std::int64_t>(value + kShift) - std::bit_cast<std::int64_t>(kShift);
}

/// Rule 3: `per_quantum` is power_of_two(-q); the product is exact.
SWARMPI_HOST_DEVICE inline std::int64_t to_fixed_point(float gradient, double per_quantum) {
  return nearest_integer(static_cast<double>(gradient) * per_quantum);
}

/// What rule 4 multiplies a sum by: 2^q / tokens, rounded once (not at all where tokens are a power
/// of two).
SWARMPI_HOST_DEVICE inline double quantum_per_token(int q, std::int64_t tokens) {
  return power_of_two(q) / static_cast<double>(tokens);
}

/// Rule 4: sum and product are rounded in double, where they need it, then the result to fp32.
SWARMPI_HOST_DEVICE inline float rounded_mean(std::int64_t sum, double quantum_per_token) {
  return static_cast<float>(static_cast<double>(sum) * quantum_per_token);
}

}  // namespace swarmpi::kernels
