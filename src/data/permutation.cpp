#include "data/permutation.hpp"

#include <bit>

#include "core/check.hpp"
#include "core/random.hpp"

namespace swarmpi {
namespace {

// Four rounds make a pseudo-random permutation of large domains; small ones need a few more to be
// well mixed.
constexpr std::uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t pass)
    : size_(size), seed_(seed), pass_(pass), half_bits_((std::bit_width(size - 1) + 1) / 2) {
  SWARMPI_CHECK(size >= 1 && size <= std::uint64_t{1} << 32, "permutation of an empty or huge set");
}

std::uint64_t Permutation::scramble(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  const auto pass_low = static_cast<std::uint32_t>(pass_);
  const std::uint64_t pass_high = pass_ >> 32 << 32;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    // `right` has at most 16 bits, so pass, round and right share the counter without overlap.
    const std::uint64_t counter = pass_high | round << 16 | right;
    const std::uint64_t word = philox(seed_, Stream::data_order, pass_low, counter)[0];
    const std::uint64_t next = (left ^ word) & mask;
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  SWARMPI_CHECK(position < size_, "no such position in the permutation");
  // The walk from a number below `size` stays on its cycle, so it comes back below `size` at the
  // latest there.
  do {
    position = scramble(position);
  } while (position >= size_);
  return position;
}

}  // namespace swarmpi
