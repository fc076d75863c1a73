#pragma once
// The state hash: a sum over elements, so it depends neither on order nor on how tensors are spread over stages.

#include <bit>
#include <cstdint>

namespace swarmpi::kernels {

/// Which of the three arrays of an element.
enum class StateKind : std::uint64_t { weight = 0, moment1 = 1, moment2 = 2 };

/// Mixes one element's bits with its place; the final mixer of MurmurHash3 (Appleby) applied twice.
constexpr std::uint64_t mix_element(float value, StateKind kind, std::int64_t index) {
  constexpr auto kMix = [](std::uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
  };
  // All NaNs are one: their payload bits are not promised by any processor.
  const std::uint32_t bits = value == value ? std::bit_cast<std::uint32_t>(value) : 0x7fc00000u;
  const std::uint64_t place = static_cast<std::uint64_t>(index) * 4 + static_cast<std::uint64_t>(kind);
  return kMix(kMix(place) + bits);
}

}  // namespace swarmpi::kernels
