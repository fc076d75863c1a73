#pragma once
// Counter-based random numbers: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A draw is a function of key and counter, so any peer can make any number, in
// any order.

#include <array>
#include <cstdint>

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

}  // namespace swarmpi
