#include "swarm/heartbeats.hpp"

namespace swarmpi {

void Heartbeats::watch(const std::vector<PeerId>& peers, double now_s) {
  std::map<PeerId, double> watched;
  for (const PeerId peer : peers) {
    if (peer == self_) continue;
    const auto known = last_heard_s_.find(peer);
    watched[peer] = known == last_heard_s_.end() ? now_s : known->second;
  }
  if (last_heard_s_.empty()) next_beat_s_ = now_s;
  last_heard_s_ = std::move(watched);
}

void Heartbeats::heard(PeerId from, double now_s) {
  const auto known = last_heard_s_.find(from);
  if (known != last_heard_s_.end()) known->second = now_s;
}

std::optional<double> Heartbeats::due_s() const {
  if (last_heard_s_.empty()) return std::nullopt;
  return next_beat_s_;
}

void Heartbeats::beat(double now_s, Outbox& outbox) {
  if (last_heard_s_.empty() || now_s < next_beat_s_) return;
  const double late_s = now_s - next_beat_s_;
  if (late_s > period_s_) {
    for (auto& [peer, heard_s] : last_heard_s_) heard_s += late_s;
  }
  for (const auto& [peer, heard_s] : last_heard_s_) outbox.send(peer, HeartbeatMessage{});
  next_beat_s_ = now_s + period_s_;
}

std::optional<Heartbeats::Silent> Heartbeats::suspect(double now_s) const {
  for (const auto& [peer, heard_s] : last_heard_s_) {
    if (now_s - heard_s > patience_s_) return Silent{peer, now_s - heard_s};
  }
  return std::nullopt;
}

}  // namespace swarmpi
