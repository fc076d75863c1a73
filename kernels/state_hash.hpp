#pragma once
// The state hash: a sum over elements, so it depends neither on order nor on how tensors are spread
// over stages.

#include <bit>
#include <cstdint>

namespace swarmpi::kernels {

/// Which of the three arrays of an element.
enum class StateKind : std::uint64_t { weight = 0, moment1 = 1, moment2 = 2 };

/// Mixes one element's bits with its place: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) at the
/// point that the place names, moved by the bits. Two multiplications, for it stands in the
/// optimizer's pass.
constexpr std::uint64_t mix_element(float value, StateKind kind, std::int64_t index) {
  // All NaNs are one: their payload bits are not promised by any processor.
  const std::uint32_t bits = value == value ? std::bit_cast<std::uint32_t>(value) : 0x7fc00000u;
  const auto place = static_cast<std::uint64_t>(index) * 4 + static_cast<std::uint64_t>(kind);
  std::uint64_t x = place * 0x9e3779b97f4a7c15ull + bits;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace swarmpi::kernels
