#pragma once
// A random order of 0 .. size-1 of which any element can be asked for alone: nothing is stored or
// shuffled.

#include <cstdint>

namespace swarmpi {

/// The order of one pass over the data: a Feistel network (Luby and Rackoff, 1988) over the next
/// even power of two, repeated until it falls below `size` (cycle walking), its rounds keyed
/// through Philox by (seed, pass).
class Permutation {
 public:
  /// 1 <= size <= 2^32.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t pass);

  /// One to one from 0 .. size-1 onto itself.
  std::uint64_t operator()(std::uint64_t position) const;

 private:
  std::uint64_t scramble(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t seed_;
  std::uint64_t pass_;
  int half_bits_;
};

}  // namespace swarmpi
