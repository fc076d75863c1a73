#include "core/random.hpp"

namespace swarmpi {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

PhiloxBlock philox_4x32(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t p1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(p0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

}  // namespace

PhiloxBlock philox(std::uint64_t seed, Stream stream, std::uint32_t a, std::uint64_t b) {
  return philox_4x32({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32), a,
                      static_cast<std::uint32_t>(stream)},
                     static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

std::uint64_t random_bits(std::uint64_t seed, Stream stream, std::uint32_t a, std::uint64_t b) {
  const PhiloxBlock block = philox(seed, stream, a, b);
  return std::uint64_t{block[1]} << 32 | block[0];
}

double uniform(std::uint32_t word) { return (static_cast<double>(word) + 1.0) * 0x1p-32; }

}  // namespace swarmpi
