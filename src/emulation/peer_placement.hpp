#pragma once
// Which rank an emulated peer lives at: those of the start at the rank of their id, a newcomer
// where nobody has lived for longest.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hardware/preemption_trace.hpp"

namespace swarmpi {

struct PeerPlacement {
  std::map<std::int64_t, int> ranks;  ///< of all peers by id
  std::string refused;  ///< why the first newcomer who finds no place does not; "" if all do
};

/// `events`: in order of time, kill some and let others join. The same for all who ask.
PeerPlacement place_peers(const std::vector<TraceEvent>& events, std::int64_t ranks);

}  // namespace swarmpi
