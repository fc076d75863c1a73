#pragma once
// What will be needed soon is read from memory while something else is done.

#include <cstddef>
#include <cstdint>

namespace swarmpi {

inline constexpr std::int64_t kCacheLineBytes = 64;

/// Caches as near as this one read a line.
enum class Cache : std::uint8_t { first, second };

/// Asks memory for the line so many bytes behind an address, which may lie behind an array: no harm
/// is done where nothing is.
template <Cache cache = Cache::first>
inline void fetch_line(const void* from, std::int64_t bytes = 0) {
  constexpr int kToRead = 0, kLocality = cache == Cache::first ? 3 : 2;
  const auto address = reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(bytes);
  // GCC drops calls of functions that do nothing but __builtin_prefetch: to it, this has an effect.
  asm volatile("");
  __builtin_prefetch(reinterpret_cast<const void*>(address), kToRead, kLocality);
}

/// The same for bytes [begin, end) behind an address, a line at a time: the last one may be missed
/// where these do not begin with a line.
template <Cache cache = Cache::first>
inline void fetch_lines(const void* from, std::int64_t begin, std::int64_t end) {
  for (std::int64_t at = begin; at < end; at += kCacheLineBytes) fetch_line<cache>(from, at);
}

/// Has an object read into the cache. Null, or what has been destroyed, does no harm.
template <class Object>
void prefetch(const Object* object) {
  if (object != nullptr) fetch_lines(object, 0, sizeof(Object));
}

}  // namespace swarmpi
