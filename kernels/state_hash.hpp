#pragma once
// The state hash: a sum over elements, so it depends neither on order nor on how tensors are spread
// over stages.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swarmpi::kernels {

/// The bits of a value. All NaNs are one: their payload bits are not promised by any processor.
constexpr std::uint32_t hashed_bits(float value) {
  return value == value ? std::bit_cast<std::uint32_t>(value) : 0x7fc00000u;
}

/// What an element's bits are mixed with.
struct HashKeys {
  std::uint32_t first, second;
};

/// The keys of elements from one place in the model on, of which there may be more than 2^32. No
/// two places share both keys: the matrix of the factors is odd, so it has an inverse. In 32 bits,
/// the carry into the upper half apart, for loops over many elements.
class PlaceKeys {
 public:
  constexpr explicit PlaceKeys(std::int64_t first_index)
      : low_(static_cast<std::uint32_t>(first_index + 1)),
        high_(static_cast<std::uint32_t>(static_cast<std::uint64_t>(first_index + 1) >> 32)) {}
  /// Of the element so many places behind the first: a loop over more elements than that needs
  /// several of these (sum_by_place()).
  constexpr HashKeys at(std::uint32_t offset) const {
    const std::uint32_t low = low_ + offset;
    const std::uint32_t high = low < low_ ? high_ + 1 : high_;
    return {low * 0x9e3779b1u + high * 0xc2b2ae3du, low * 0x85ebca77u + high * 0x27d4eb2eu};
  }

 private:
  std::uint32_t low_, high_;
};

/// One element's weight and moments, mixed with its place. Products of 32 bits by 32, of which
/// vector units make many at a time: the hash stands in the optimizer's pass. The keys keep the
/// factors from being zero where the values are; the odd factor lets no flipped bit of the second
/// moment vanish.
constexpr std::uint64_t hash_element(float weight, float moment1, float moment2, HashKeys keys) {
  const std::uint32_t w = hashed_bits(weight);
  return static_cast<std::uint64_t>(w ^ keys.first) * (hashed_bits(moment1) ^ keys.second) +
         static_cast<std::uint64_t>(hashed_bits(moment2) ^ keys.first) * ((w ^ keys.second) | 1u);
}
constexpr std::uint64_t hash_element(float weight, float moment1, float moment2,
                                     std::int64_t index) {
  return hash_element(weight, moment1, moment2, PlaceKeys(index).at(0));
}

/// 32 bits alone, likewise: no flipped bit vanishes.
constexpr std::uint64_t hash_word(std::uint32_t bits, HashKeys keys) {
  return static_cast<std::uint64_t>(bits ^ keys.first) * (keys.second | 1u);
}

/// The sum of hash_at(i, keys of the place first_index + i) over 0 <= i < count, however many.
template <class HashAt>
std::uint64_t sum_by_place(std::int64_t first_index, std::int64_t count, const HashAt& hash_at) {
  constexpr std::int64_t kStretch = 1 << 16;
  std::uint64_t sum = 0;
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const PlaceKeys keys(first_index + first);
    const std::int64_t length = std::min(kStretch, count - first);
    for (std::int64_t i = 0; i < length; ++i) {
      sum += hash_at(first + i, keys.at(static_cast<std::uint32_t>(i)));
    }
  }
  return sum;
}

// `static`: the native kernels have these with instructions of their own, which the linker may not
// take for anybody else's.

/// Of weights and moments, as they stand.
static inline std::uint64_t hash_of_state(const float* weights, const float* moment1,
                                          const float* moment2, std::int64_t count,
                                          std::int64_t first_index) {
  return sum_by_place(first_index, count, [=](std::int64_t i, HashKeys keys) {
    return hash_element(weights[i], moment1[i], moment2[i], keys);
  });
}

/// Of weights without moments: of a version that is kept beside the newest.
static inline std::uint64_t hash_of_weights(const float* weights, std::int64_t count,
                                            std::int64_t first_index) {
  return sum_by_place(first_index, count, [=](std::int64_t i, HashKeys keys) {
    return hash_word(hashed_bits(weights[i]), keys);
  });
}

/// Of any bytes, four at a time; `first_word`: how many of these come before them.
static inline std::uint64_t hash_of_bytes(const std::byte* bytes, std::size_t size,
                                          std::int64_t first_word) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  const auto words = static_cast<std::int64_t>(size / kWord);
  std::uint64_t sum = sum_by_place(first_word, words, [=](std::int64_t i, HashKeys keys) {
    std::uint32_t word;
    std::memcpy(&word, bytes + static_cast<std::size_t>(i) * kWord, kWord);
    return hash_word(word, keys);
  });
  if (const std::size_t rest = size % kWord; rest > 0) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes + size - rest, rest);
    sum += hash_word(word, PlaceKeys(first_word + words).at(0));
  }
  return sum;
}

}  // namespace swarmpi::kernels
