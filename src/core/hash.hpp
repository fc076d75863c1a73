#pragma once
// Two hashes: of bytes (files, records) and of numbered elements (state), which does not depend on
// order.

#include <cstddef>
#include <cstdint>
#include <string>

namespace swarmpi {

/// XXH3 of bytes in order.
std::uint64_t hash_bytes(const void* data, std::size_t size_bytes, std::uint64_t seed = 0);

/// XXH3 of a long stream in pieces.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void add(const void* data, std::size_t size_bytes);
  std::uint64_t value() const;

 private:
  void* state_;
};

/// 16 lower-case hexadecimal digits.
std::string hex(std::uint64_t value);

}  // namespace swarmpi
