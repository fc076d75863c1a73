#pragma once
// Draws in a row from one seed: whoever asks for the same in the same order gets the same.

#include <cstdint>
#include <vector>

#include "core/rng.hpp"
#include "kernels/portable_math.hpp"

namespace swarmpi {

class DrawSequence {
 public:
  /// `of`: what is drawn; rows of different purposes share nothing.
  DrawSequence(std::uint64_t seed, std::uint32_t of) : seed_(seed), of_(of) {}

  std::uint64_t bits() { return random_bits(seed_, Stream::simulation, of_, count_++); }
  /// In [0, 1).
  double fraction() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return fraction() < probability; }
  /// Both ends may come.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  double uniform(double least, double most) { return least + (most - least) * fraction(); }
  /// Every order of magnitude alike. REQUIRES: 0 < least.
  double log_uniform(double least, double most) {
    return least * kernels::portable_pow(most / least, fraction());
  }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(bits() % choices.size())];
  }

 private:
  std::uint64_t seed_;
  std::uint32_t of_;
  std::uint64_t count_ = 0;
};

}  // namespace swarmpi
