#pragma once
// exp and log in fp32 from polynomials with explicit fma: no branch and no call, so a loop over
// them becomes vector instructions, and the bits are the same at every width. exp also for vectors.

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline float larger(float a, float b) { return a > b ? a : b; }
inline float smaller(float a, float b) { return a < b ? a : b; }
inline float times_power_of_two(float p, float shifted) {
  return p * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u);
}
inline Vector times_power_of_two(Vector p, Vector shifted) {
  return p *
         __builtin_bit_cast(Vector, (__builtin_bit_cast(VectorBits, shifted) << 23) + 0x3f800000u);
}

/// e^x for x in [-87, 88], within 1.5 units in the last place; a NaN stays one. Outside, the value
/// at the nearer end. F: float or Vector.
template <class F>
inline F exp_clamped(F x) {
  const F zero = {};
  const F log2e = zero + 0x1.715476p+0f;
  const F ln2_high = zero + 0x1.62e43p-1f;
  const F ln2_low = zero - 0x1.05c61p-29f;
  const F shift = zero + 0x1.8p23f;  // adding it leaves the nearest integer in the lowest bits
  const F least = zero - 87.0f;
  const F most = zero + 88.0f;
  x = smaller(most, larger(least, x));
  const F shifted = fused(x, log2e, shift);
  const F n = shifted - shift;
  const F r = fused(n, -ln2_low, fused(n, -ln2_high, x));
  // (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2, interpolated at Chebyshev's nodes.
  F p = zero + 0x1.6d43b4p-10f;
  p = fused(p, r, zero + 0x1.120be8p-7f);
  p = fused(p, r, zero + 0x1.5554e8p-5f);
  p = fused(p, r, zero + 0x1.5554dcp-3f);
  p = fused(p, r, zero + 0.5f);
  p = fused(p * r, r, r) + 1.0f;
  return times_power_of_two(p, shifted);
}

/// e^x for x <= 0, where what is below e^-64 counts as zero: nothing next to a sum of at least 1,
/// and the products of such numbers would be denormals, which are slow.
template <class F>
inline F exp_or_zero(F x) {
  const F zero = {};
  const F e = exp_clamped(x);
  return x < zero - 64.0f ? zero : e;
}

/// 2^x for x < 128, within 3 units in the last place, and zero below 2^-92, as exp_or_zero() is; 1
/// of 0; a NaN stays one. For results that are rounded to bf16.
inline Vector power_of_two(Vector x) {
  const Vector zero = {};
  const Vector f = fraction(x);
  // (2^f - 1) / f on [0, 1), interpolated at Chebyshev's nodes.
  Vector p = zero + 0x1.d4cf66p-10f;
  p = fused(p, f, zero + 0x1.2d720ep-7f);
  p = fused(p, f, zero + 0x1.c7f14ep-5f);
  p = fused(p, f, zero + 0x1.ebf1cp-3f);
  p = fused(p, f, zero + 0x1.62e43cp-1f);
  p = times_power_of_floor(fused(p, f, zero + 1.0f), x);
  return x < zero - 92.0f ? zero : p;
}

/// ln x for positive normal numbers, within 2 units in the last place of the larger of the result
/// and 1; a NaN stays one.
inline float log_of_normal(float x) {
  constexpr float kLn2High = 0x1.62e43p-1f;
  constexpr float kLn2Low = -0x1.05c61p-29f;
  // x = m 2^n with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1).
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t shifted = bits - 0x3f3504f3u;  // sqrt(1/2)
  const auto n = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u);
  const float s = (m - 1.0f) / (m + 1.0f);
  const float square = s * s;
  float p = 0x1.de16a4p-3f;  // fitted to |s| < 0.1716
  p = std::fma(p, square, 0x1.245a72p-2f);
  p = std::fma(p, square, 0x1.9999f2p-2f);
  p = std::fma(p, square, 0x1.555556p-1f);
  p = std::fma(p * square, s, 2.0f * s);
  const float log = std::fma(n, kLn2High, std::fma(n, kLn2Low, p));
  return x == x ? log : x;
}

}  // namespace swarmpi::kernels::native
