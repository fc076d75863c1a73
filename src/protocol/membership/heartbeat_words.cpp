#include "protocol/membership/heartbeat_words.hpp"

#include <utility>

namespace swarmpi {
namespace {

// Periods over which a peer must say that it does not hear this one.
constexpr double kPeriodsThatProve = 2;

}  // namespace

void HeartbeatWords::came(PeerId from, const HeartbeatMessage& beat, double now_s,
                          std::optional<double> regular_since_s) {
  const auto before = last_.find(from);
  Last last{beat, now_s, false, std::nullopt};
  const bool handles_nothing = before != last_.end() && before->second.beat.handled == beat.handled;
  last.stands_still = handles_nothing && beat.oldest_waits_s > patience_s_;
  // What this peer has said since may not have come there yet.
  const bool was_to_hear = regular_since_s && now_s - *regular_since_s > patience_s_;
  if (was_to_hear && beat.you_silent_s > patience_s_) {
    const bool again = before != last_.end() && before->second.deaf_since_s;
    last.deaf_since_s = again ? *before->second.deaf_since_s : now_s;
  }
  last_[from] = std::move(last);
}

bool HeartbeatWords::stands_still(PeerId peer) const {
  const auto last = last_.find(peer);
  return last != last_.end() && last->second.stands_still;
}

bool HeartbeatWords::hears(PeerId peer, PeerId leader, double now_s) const {
  const auto last = last_.find(peer);
  if (last == last_.end() || last->second.beat.leader != leader) return false;
  return last->second.beat.leader_silent_s + (now_s - last->second.at_s) < patience_s_;
}

std::set<PeerId> HeartbeatWords::deaf(double now_s) const {
  std::set<PeerId> deaf;
  for (const auto& [peer, last] : last_) {
    const bool said_again =
        last.deaf_since_s && last.at_s - *last.deaf_since_s >= kPeriodsThatProve * period_s_;
    if (said_again && now_s - last.at_s <= kPeriodsThatProve * period_s_) deaf.insert(peer);
  }
  return deaf;
}

}  // namespace swarmpi
