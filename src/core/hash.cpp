#include "core/hash.hpp"

#include <fmt/core.h>
#include <xxhash.h>

namespace swarmpi {

std::uint64_t hash_bytes(const void* data, std::size_t size_bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, size_bytes, seed);
}

StreamHash::StreamHash() : state_(XXH3_createState()) {
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}

StreamHash::~StreamHash() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void StreamHash::add(const void* data, std::size_t size_bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), data, size_bytes);
}

std::uint64_t StreamHash::value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace swarmpi
