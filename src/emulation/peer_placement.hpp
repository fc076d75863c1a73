#pragma once
// At which rank each emulated peer lives: the peers of the start at the rank of their id, a
// newcomer at the rank that has been free for longest.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hardware/preemption_trace.hpp"

namespace swarmpi {

struct PeerPlacement {
  std::map<std::int64_t, int> ranks;  ///< of all peers by id
  std::string refused;  ///< why the first newcomer without a rank has none; "" if all have one
};

/// `events`: in order of time; only kills and joins count. All ranks compute the same.
PeerPlacement place_peers(const std::vector<TraceEvent>& events, std::int64_t ranks);

}  // namespace swarmpi
