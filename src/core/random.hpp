#pragma once
// Counter-based random numbers: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A draw is a function of key and counter, so any peer can make any number, in
// any order.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace swarmpi {

/// What a stream of random numbers is for; part of the key, so that no two uses share numbers.
enum class Stream : std::uint32_t {
  initial_values = 1,
  data_order = 2,
  held_out = 3,
  sampling = 4,
  fingerprint = 5,
  wiring = 6,
  simulation = 7,
  faults = 8,
  network = 9,
  test = 100,
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Four random words for (seed, stream, a, b). `a` names the object (a tensor, a pass over the
/// data), `b` the element.
PhiloxBlock philox(std::uint64_t seed, Stream stream, std::uint32_t a, std::uint64_t b);

/// 64 random bits for (seed, stream, a, b).
std::uint64_t random_bits(std::uint64_t seed, Stream stream, std::uint32_t a, std::uint64_t b);

/// Uniform in (0, 1], exact in double: never 0, so that its logarithm exists.
double uniform(std::uint32_t word);

/// A sequence of random numbers: two streams with the same seed, purpose, key and first index give
/// the same numbers in the same order.
class RandomStream {
 public:
  /// `key` tells streams of one purpose apart; `first` is the index of the first number.
  RandomStream(std::uint64_t seed, Stream stream, std::uint32_t key, std::uint64_t first = 0)
      : seed_(seed), stream_(stream), key_(key), next_(first) {}

  std::uint64_t bits() { return random_bits(seed_, stream_, key_, next_++); }
  /// One of 0 .. count-1, each as likely as the others. REQUIRES: 0 < count < 2^32.
  std::size_t below(std::size_t count) {
    const std::uint64_t word = bits() >> 32;
    return static_cast<std::size_t>(word * count >> 32);
  }
  /// In [0, 1).
  double fraction() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return fraction() < probability; }
  /// A whole number in [least, most].
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  double uniform(double least, double most) { return least + (most - least) * fraction(); }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(bits() % choices.size())];
  }

 private:
  std::uint64_t seed_;
  Stream stream_;
  std::uint32_t key_;
  std::uint64_t next_;
};

}  // namespace swarmpi
