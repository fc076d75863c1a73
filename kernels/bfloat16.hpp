#pragma once
// bf16 is the upper half of an fp32. Rounding is to nearest, ties to even; denormals become zero of
// their sign, as in the instructions that processors have for it; a NaN stays one. Bit operations
// alone, so every kernel that uses them has the same bits and vectorises.

#include <bit>
#include <cstdint>

namespace swarmpi::kernels {

constexpr std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nan = (bits >> 16 & 0x8000u) | 0x7fc0u;
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const std::uint32_t finite = (bits & 0x7f800000u) == 0 ? bits >> 16 & 0x8000u : rounded;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : finite);
}

constexpr float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The bf16 nearest to `value`, as the fp32 that it is.
constexpr float round_to_bf16(float value) { return float_from_bf16(bf16_from_float(value)); }

}  // namespace swarmpi::kernels
