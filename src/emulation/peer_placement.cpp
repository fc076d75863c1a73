#include "emulation/peer_placement.hpp"

#include <fmt/core.h>

#include <deque>

namespace swarmpi {
namespace {

std::string refusal(const TraceEvent& join, const char* why) {
  return fmt::format("at {:g} s peer {} joins, {}", join.time_s, join.peer, why);
}

}  // namespace

PeerPlacement place_peers(const std::vector<TraceEvent>& events, std::int64_t ranks) {
  PeerPlacement placement;
  std::map<std::int64_t, int> living;
  for (int rank = 0; rank < ranks; ++rank) placement.ranks[rank] = living[rank] = rank;
  std::deque<int> free;  // the one that has been free for longest first
  for (const TraceEvent& event : events) {
    if (event.event == FaultEvent::kill) {
      const auto lives_at = living.find(event.peer);
      if (lives_at == living.end()) continue;
      free.push_back(lives_at->second);
      living.erase(lives_at);
    } else if (event.event == FaultEvent::join) {
      const bool has_lived = placement.ranks.contains(event.peer);
      if (has_lived || free.empty()) {
        if (!placement.refused.empty()) continue;
        placement.refused =
            refusal(event, has_lived ? "which was there before: newcomers have new ids"
                                     : "and no rank is free");
        continue;
      }
      placement.ranks[event.peer] = living[event.peer] = free.front();
      free.pop_front();
    }
  }
  return placement;
}

}  // namespace swarmpi
