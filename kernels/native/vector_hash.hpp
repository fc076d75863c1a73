#pragma once
// The state hash of 16 elements at a time: the sums of state_hash.hpp, which holds the rule.

#include <cstddef>
#include <cstdint>

#include "kernels/native/vectors.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::native {

/// PlaceKeys of 16 elements in a row, all of them before the carry into the upper half.
class KeyVectors {
 public:
  explicit KeyVectors(std::int64_t first_index) {
    const VectorBits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const HashKeys keys = PlaceKeys(first_index).at(0);
    first = keys.first + lane * kFirstStep;
    second = keys.second + lane * kSecondStep;
  }
  /// To the next 16.
  void advance() {
    first += 16 * kFirstStep;
    second += 16 * kSecondStep;
  }

  VectorBits first, second;

 private:
  static constexpr std::uint32_t kFirstStep = PlaceKeys(0).at(1).first - PlaceKeys(0).at(0).first;
  static constexpr std::uint32_t kSecondStep =
      PlaceKeys(0).at(1).second - PlaceKeys(0).at(0).second;
};

/// sum_by_place(), of `of_vector` for whole vectors and of `of_element` for the others.
template <class OfVector, class OfElement>
std::uint64_t sum_in_vectors(std::int64_t first_index, std::int64_t count,
                             const OfVector& of_vector, const OfElement& of_element) {
  const auto low = static_cast<std::uint32_t>(first_index + 1);
  const bool carries = low + static_cast<std::uint64_t>(count) > std::uint64_t{1} << 32;
  const std::int64_t whole = carries ? 0 : count / kVectorLanes * kVectorLanes;
  VectorWide sums = {};
  KeyVectors keys(first_index);
  for (std::int64_t i = 0; i < whole; i += kVectorLanes, keys.advance()) {
    sums += of_vector(i, keys);
  }
  std::uint64_t sum = sum_by_place(
      first_index + whole, count - whole,
      [&](std::int64_t i, HashKeys element_keys) { return of_element(whole + i, element_keys); });
  for (int lane = 0; lane < 8; ++lane) sum += sums[lane];
  return sum;
}

/// hashed_bits() of 16 values.
inline VectorBits hashed_bits_at(const float* values) {
  const Vector v = load(values);
  return v == v ? __builtin_bit_cast(VectorBits, v)
                : VectorBits{} + hashed_bits(__builtin_nanf(""));
}

/// hash_word() of 16 words, added in pairs.
inline VectorWide hash_words(VectorBits words, const KeyVectors& keys) {
  return sums_of_product_pairs(words ^ keys.first, keys.second | 1u);
}

/// hash_of_state().
inline std::uint64_t vector_hash_of_state(const float* weights, const float* moment1,
                                          const float* moment2, std::int64_t count,
                                          std::int64_t first_index) {
  return sum_in_vectors(
      first_index, count,
      [=](std::int64_t i, const KeyVectors& keys) {
        const VectorBits w = hashed_bits_at(weights + i);
        const VectorBits m1 = hashed_bits_at(moment1 + i), m2 = hashed_bits_at(moment2 + i);
        return sums_of_product_pairs(w ^ keys.first, m1 ^ keys.second) +
               sums_of_product_pairs(m2 ^ keys.first, (w ^ keys.second) | 1u);
      },
      [=](std::int64_t i, HashKeys keys) {
        return hash_element(weights[i], moment1[i], moment2[i], keys);
      });
}

/// hash_of_weights().
inline std::uint64_t vector_hash_of_weights(const float* weights, std::int64_t count,
                                            std::int64_t first_index) {
  return sum_in_vectors(
      first_index, count,
      [=](std::int64_t i, const KeyVectors& keys) {
        return hash_words(hashed_bits_at(weights + i), keys);
      },
      [=](std::int64_t i, HashKeys keys) { return hash_word(hashed_bits(weights[i]), keys); });
}

/// hash_of_bytes() of so many words, all of them whole.
inline std::uint64_t vector_hash_of_words(const void* words, std::int64_t count,
                                          std::int64_t first_word) {
  const auto* const bytes = static_cast<const std::byte*>(words);
  const auto at = [=](std::int64_t i, auto word) {
    std::memcpy(&word, bytes + i * static_cast<std::int64_t>(sizeof(std::uint32_t)), sizeof word);
    return word;
  };
  return sum_in_vectors(
      first_word, count,
      [=](std::int64_t i, const KeyVectors& keys) { return hash_words(at(i, VectorBits{}), keys); },
      [=](std::int64_t i, HashKeys keys) { return hash_word(at(i, std::uint32_t{}), keys); });
}

}  // namespace swarmpi::kernels::native
