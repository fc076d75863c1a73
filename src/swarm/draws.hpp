#pragma once
// The random choices of one router: numbers of a stream of its own, in the order they are drawn.

#include <cstdint>

#include "core/ids.hpp"
#include "core/rng.hpp"

namespace swarmpi {

class Draws {
 public:
  Draws(std::uint64_t seed, PeerId self, StageId stage)
      : seed_(seed),
        self_(static_cast<std::uint32_t>(self.value)),
        // No deck has more than 2^16 stages, no run makes 2^48 choices.
        next_(static_cast<std::uint64_t>(stage.value) << 48) {}

  std::uint64_t bits() { return random_bits(seed_, Stream::wiring, self_, next_++); }

  /// One of 0 .. count-1, each as likely as the others.
  std::size_t below(std::size_t count) {
    const std::uint64_t word = bits() >> 32;
    return static_cast<std::size_t>(word * count >> 32);
  }

 private:
  std::uint64_t seed_;
  std::uint32_t self_;
  std::uint64_t next_;
};

}  // namespace swarmpi
