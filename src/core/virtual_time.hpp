#pragma once
// Time that is counted, not measured: whole nanoseconds, the same on every machine.

#include <algorithm>
#include <cstdint>
#include <limits>

namespace swarmpi {

using Nanoseconds = std::int64_t;

/// Later than anything that happens.
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

inline constexpr double kHundredYearsS = 100.0 * 365 * 24 * 3600;

/// The nearest, as near as doubles tell, and a hundred years at most; much faster than
/// std::llround.
inline Nanoseconds rounded_ns(double ns) {
  return static_cast<Nanoseconds>(ns < 0 ? ns - 0.5 : std::min(ns, kHundredYearsS * 1e9) + 0.5);
}
/// Rounded once. What lies beyond a hundred years is never.
inline Nanoseconds to_ns(double seconds) {
  return seconds < kHundredYearsS ? rounded_ns(seconds * 1e9) : kNever;
}
inline double to_s(Nanoseconds time) {
  return time == kNever ? std::numeric_limits<double>::infinity() : static_cast<double>(time) / 1e9;
}
/// The first time that is not before so many seconds.
inline Nanoseconds to_ns_or_later(double seconds) {
  Nanoseconds time = to_ns(seconds);
  while (to_s(time) < seconds) ++time;
  return time;
}

}  // namespace swarmpi
