#pragma once
// Time as models count it: whole nanoseconds, so that it is the same on all machines. A duration is
// computed in double precision and rounded once.

#include <cmath>
#include <cstdint>

namespace swarmpi {

using Nanoseconds = std::int64_t;

inline Nanoseconds to_ns(double seconds) { return std::llround(seconds * 1e9); }
inline double to_s(Nanoseconds ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace swarmpi
