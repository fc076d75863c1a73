#pragma once
// What will be needed soon is read from memory while something else is done.

#include <cstddef>

namespace swarmpi {

/// Has an object read into the cache. Null, or what has been destroyed, does no harm.
template <class Object>
void prefetch(const Object* object) {
  if (object == nullptr) return;
  constexpr std::size_t kLine = 64;
  const char* const first = reinterpret_cast<const char*>(object);
  for (std::size_t line = 0; line < sizeof(Object); line += kLine) {
    __builtin_prefetch(first + line);
  }
}

}  // namespace swarmpi
