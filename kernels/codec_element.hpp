#pragma once
// One element of the codecs of codecs.hpp. All backends use these, or tables made of them, so that
// their bytes are equal. Multiplications, additions and divisions of fp32 while the rounding mode
// is to nearest, and integers: no instruction that converts, whose treatment of denormals and NaNs
// differs.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/codecs.hpp"
#include "kernels/fixed_point_element.hpp"

namespace swarmpi::kernels {

/// What every NaN becomes.
inline constexpr float kCanonicalNan = std::bit_cast<float>(0x7fc00000u);

/// The IEEE half nearest to `value`, ties to even; infinite from 65520 on. Halves below 2^-14 are
/// multiples of 2^-24, which are the lowest bits of a sum with 0.5.
constexpr std::uint16_t half_from_float(float value) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000u;
  const std::uint32_t magnitude = magnitude_bits(value);
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = ((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10);
  const std::uint32_t finite = magnitude < 0x38800000u ? small : normal;
  const std::uint32_t half = magnitude < 0x477ff000u ? finite : 0x7c00u;
  return static_cast<std::uint16_t>(magnitude > kInfinityBits ? 0x7e00u : half | sign);
}

constexpr float float_from_half(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude | 0x3f000000u) - 0.5f);
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t infinite = (magnitude << 13) + (224u << 23);
  const std::uint32_t finite = magnitude < 0x400u ? small : normal;
  return std::bit_cast<float>((magnitude < 0x7c00u ? finite : infinite) | (half & 0x8000u) << 16);
}

/// The bf16 nearest to `value`, ties to even, denormals too. float_from_bf16() is the way back.
constexpr std::uint16_t coded_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<std::uint16_t>(magnitude_bits(value) > kInfinityBits ? 0x7fc0u : rounded);
}

/// What is stored of a block whose largest magnitude has these bits. Only where it is above zero do
/// codes follow that say anything. 1 / it is finite then.
constexpr float coded_absmax(std::uint32_t magnitude) {
  constexpr auto kLeast = std::bit_cast<std::uint32_t>(0x1p-100f);
  if (magnitude >= kInfinityBits) return kCanonicalNan;
  return magnitude < kLeast ? 0.0f : std::bit_cast<float>(magnitude);
}
constexpr bool decodes_to_nan(float absmax) { return magnitude_bits(absmax) >= kInfinityBits; }

// uniform8: a code is RNE(x * rate); it stands for code * step. Near the largest fp32 127 steps may
// be infinite.
constexpr float uniform8_rate(float absmax) { return 127.0f / absmax; }
constexpr float uniform8_step(float absmax) { return absmax / 127.0f; }
/// REQUIRES: |y| < 2^22.
constexpr std::int8_t uniform8_code(float y) {
  constexpr float kShift = 0x1.8p23f;  // the integer is in the lowest bits of the sum
  const auto nearest =
      std::bit_cast<std::int32_t>(y + kShift) - std::bit_cast<std::int32_t>(kShift);
  return static_cast<std::int8_t>(std::clamp(nearest, -127, 127));
}

// blockwise8: a code is a place in a sorted codebook of 256 values, the one nearest to x * (1 /
// absmax); it stands for value * absmax.
namespace detail {

/// 0, 1, and for i = 0 .. 6 plus and minus 10^(i - 6) times the midpoints of 2^i equal parts of
/// [0.1, 1]. Such a value is (2^(i + 1) + 9 (2 j + 1)) / (2^(i + 1) 10^(7 - i)), both of them exact
/// in fp32, so the division is all that is rounded.
constexpr std::array<float, 256> blockwise8_values() {
  std::array<float, 256> values{};
  std::size_t next = 0;
  values[next++] = 0.0f;
  values[next++] = 1.0f;
  int power_of_ten = 10'000'000;  // 10^(7 - i)
  for (int i = 0; i < 7; ++i, power_of_ten /= 10) {
    const int twice_parts = 2 << i;
    for (int j = 0; j < twice_parts / 2; ++j) {
      const float value = static_cast<float>(twice_parts + 9 * (2 * j + 1)) /
                          (static_cast<float>(twice_parts) * static_cast<float>(power_of_ten));
      values[next++] = value;
      values[next++] = -value;
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

/// Halfway between neighbouring values: the sum is exact in double, and rounded once.
constexpr std::array<float, 255> midpoints(const std::array<float, 256>& values) {
  std::array<float, 255> midpoints{};
  for (std::size_t i = 0; i < midpoints.size(); ++i) {
    const double sum = static_cast<double>(values[i]) + static_cast<double>(values[i + 1]);
    midpoints[i] = static_cast<float>(sum / 2);
  }
  return midpoints;
}

}  // namespace detail

inline constexpr std::array<float, 256> kBlockwise8Values = detail::blockwise8_values();
inline constexpr std::array<float, 255> kBlockwise8Midpoints = detail::midpoints(kBlockwise8Values);
/// The code of zero, of either sign.
inline constexpr std::uint8_t kBlockwise8Zero = 127;

constexpr float blockwise8_rate(float absmax) { return 1.0f / absmax; }
/// The number of midpoints below y: a tie goes to the lower value.
constexpr std::uint8_t blockwise8_code(float y) {
  const auto& midpoints = kBlockwise8Midpoints;
  return static_cast<std::uint8_t>(std::lower_bound(midpoints.begin(), midpoints.end(), y) -
                                   midpoints.begin());
}

}  // namespace swarmpi::kernels
