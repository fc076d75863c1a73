#include "protocol/membership/heartbeat_words.hpp"

#include "protocol/messages/liveness.hpp"

namespace swarmpi {
namespace {

// Periods over which a peer must say that it does not hear this one.
constexpr double kPeriodsOfDeafness = 2;

}  // namespace

void HeartbeatWords::came(PeerId from, const HeartbeatMessage& beat, double now_s,
                          std::optional<double> regular_since_s) {
  const auto [entry, is_new] = last_.try_emplace(from);
  Last& last = entry->second;
  const bool handles_nothing = !is_new && last.handled == beat.handled;
  if (handles_nothing && beat.oldest_waits_s > patience_s_) {
    stand_still_.insert(from);
  } else {
    stand_still_.erase(from);
  }
  // What this peer has said since may not have come there yet.
  const bool was_to_hear = regular_since_s && now_s - *regular_since_s > patience_s_;
  const bool is_deaf = was_to_hear && beat.you_silent_s > patience_s_;
  if (!is_deaf) last.deaf_since_s.reset();
  if (is_deaf && !last.deaf_since_s) last.deaf_since_s = now_s;
  last.handled = beat.handled;
  last.leader = beat.leader;
  last.leader_silent_s = beat.leader_silent_s;
  last.at_s = now_s;
}

bool HeartbeatWords::hears(PeerId peer, PeerId leader, double now_s) const {
  const auto last = last_.find(peer);
  if (last == last_.end() || last->second.leader != leader) return false;
  return last->second.leader_silent_s + (now_s - last->second.at_s) < patience_s_;
}

std::set<PeerId> HeartbeatWords::deaf(double now_s) const {
  std::set<PeerId> deaf;
  for (const auto& [peer, last] : last_) {
    const bool said_again =
        last.deaf_since_s && last.at_s - *last.deaf_since_s >= kPeriodsOfDeafness * period_s_;
    if (said_again && now_s - last.at_s <= kPeriodsOfDeafness * period_s_) deaf.insert(peer);
  }
  return deaf;
}

}  // namespace swarmpi
