#pragma once
// Whether a thread computes, or hangs in a call.

#include <algorithm>

namespace swarmpi {

/// Whether a thread that has used this much CPU time within `over_s` has computed. What waits in a
/// loop that looks now and then uses a little, too.
inline bool computes(double cpu_s, double over_s) {
  constexpr double kNoCpuS = 1e-3;
  constexpr double kNoShare = 0.02;
  return cpu_s >= std::max(kNoCpuS, kNoShare * over_s);
}

}  // namespace swarmpi
