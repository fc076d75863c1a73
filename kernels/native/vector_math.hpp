#pragma once
// exp in fp32 from a polynomial with explicit fma: no branch and no call, so a loop over it becomes
// vector instructions, and its bits are the same at every width.

#include <bit>
#include <cmath>
#include <cstdint>

namespace swarmpi::kernels::native {

/// e^x for x in [-87, 88], within 1.5 units in the last place; a NaN stays one. Outside, the value
/// at the nearer end.
inline float exp_clamped(float x) {
  constexpr float kLog2e = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f;
  constexpr float kLn2Low = -0x1.05c61p-29f;
  constexpr float kShift = 0x1.8p23f;  // adding it leaves the nearest integer in the lowest bits
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = std::fma(x, kLog2e, kShift);
  const float n = shifted - kShift;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  // (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2, interpolated at Chebyshev's nodes.
  float p = 0x1.6d43b4p-10f;
  p = std::fma(p, r, 0x1.120be8p-7f);
  p = std::fma(p, r, 0x1.5554e8p-5f);
  p = std::fma(p, r, 0x1.5554dcp-3f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p * r, r, r) + 1.0f;
  return p * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u);
}

/// e^x for x <= 0, where what is below e^-64 counts as zero: nothing next to a sum of at least 1,
/// and the products of such numbers would be denormals, which are slow.
inline float exp_or_zero(float x) {
  const float e = exp_clamped(x);
  return x < -64.0f ? 0.0f : e;
}

}  // namespace swarmpi::kernels::native
