#pragma once
// The rule of order-free sums (docs/numerics.md): gradients become integers, so that the
// order in which microbatches and replicas are added cannot matter. Integers and their sums are
// exact but for the rounding of each gradient to an integer.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace swarmpi::kernels {

/// Bits of headroom between the largest value seen before and the largest that may come.
inline constexpr int kHeadroomBits = 16;
/// Marks an exponent that nothing has set: a tensor that was zero so far.
inline constexpr std::int16_t kNoExponent = INT16_MIN;

/// W of the rule: bits of one microbatch's integers, so that the sum of `microbatches` stays within
/// 2^62.
constexpr int fixed_point_bits(std::int64_t microbatches) {
  const int log2_up =
      microbatches <= 1 ? 0 : 64 - std::countl_zero(static_cast<std::uint64_t>(microbatches - 1));
  return std::min(50, 62 - log2_up);
}

/// q of the rule: one unit of the integers is 2^q.
constexpr int quantum_exponent(std::int16_t exponent, int bits) {
  return exponent + kHeadroomBits - bits;
}

/// What one microbatch did to one tensor's sum.
struct Contribution {
  std::int16_t exponent =
      kNoExponent;         ///< least e with max|g| < 2^e; kNoExponent if zero or not finite
  bool nonfinite = false;  ///< an infinity or a NaN: nothing was added
  bool overflow = false;   ///< above the headroom, or no exponent is set yet: nothing was added

  constexpr bool flagged() const { return nonfinite || overflow; }
  /// What this microbatch and another did together.
  void merge(const Contribution& other) {
    exponent = std::max(exponent, other.exponent);
    nonfinite = nonfinite || other.nonfinite;
    overflow = overflow || other.overflow;
  }
};

}  // namespace swarmpi::kernels
