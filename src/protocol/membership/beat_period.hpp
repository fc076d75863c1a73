#pragma once
// How often heartbeats are sent, and how long they are waited for: a leader exchanges them with all
// others, and is to have time for other things in a large swarm.

#include <algorithm>
#include <cstddef>

#include "config/config.hpp"

namespace swarmpi {

/// The patience of all others over the leader's, which is swarm.suspect_after_s. A peer that cannot
/// reach a live leader is killed on the leader's order before its own patience ends.
inline constexpr double kLongerThanTheLeader = 1.5;

/// Up to so many members swarm.heartbeat_s holds; it grows with their number from there on, but
/// within the time for which whoever waits for them is patient several must come.
inline double beat_period_s(const SwarmConfig& swarm, std::size_t members, double patience_s) {
  constexpr double kMembers = 16;
  constexpr double kBeatsToSuspicion = 4;
  const double grown_s = swarm.heartbeat_s * static_cast<double>(members) / kMembers;
  const double most_s = patience_s / kBeatsToSuspicion;
  return std::max(swarm.heartbeat_s, std::min(grown_s, most_s));
}

}  // namespace swarmpi
