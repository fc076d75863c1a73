#pragma once
// The state hash: a sum over elements, so it depends neither on order nor on how tensors are spread
// over stages.

#include <bit>
#include <cstdint>

namespace swarmpi::kernels {

/// The bits of a value. All NaNs are one: their payload bits are not promised by any processor.
constexpr std::uint32_t hashed_bits(float value) {
  return value == value ? std::bit_cast<std::uint32_t>(value) : 0x7fc00000u;
}

/// One element's weight and moments, mixed with its place. Products of 32 bits by 32, of which
/// vector units make many at a time: the hash stands in the optimizer's pass. The keys keep the
/// factors from being zero where the values are; the odd factor lets no flipped bit of the second
/// moment vanish.
constexpr std::uint64_t hash_element(float weight, float moment1, float moment2,
                                     std::int64_t index) {
  const auto place = static_cast<std::uint32_t>(index + 1);
  const std::uint32_t key1 = place * 0x9e3779b1u;
  const std::uint32_t key2 = place * 0x85ebca77u;
  const std::uint32_t w = hashed_bits(weight);
  return static_cast<std::uint64_t>(w ^ key1) * (hashed_bits(moment1) ^ key2) +
         static_cast<std::uint64_t>(hashed_bits(moment2) ^ key1) * ((w ^ key2) | 1u);
}

}  // namespace swarmpi::kernels
