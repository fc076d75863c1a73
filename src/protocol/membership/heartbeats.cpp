#include "protocol/membership/heartbeats.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "protocol/messages/liveness.hpp"

namespace swarmpi {
namespace {

// When in a period a peer beats. All begin with the same view: without this all beats would reach
// the leader at once, and of two peers that await something of each other both would ping, again
// and again.
double phase(PeerId self) {
  constexpr double kGoldenRatio = 0.6180339887498949;  // spreads any number of ids evenly
  const double turns = self.value * kGoldenRatio;
  return turns - std::floor(turns);
}

}  // namespace

void Heartbeats::watch(const std::vector<PeerId>& peers, double now_s, bool pings_others) {
  if (!due_s()) next_beat_s_ = now_s + phase(self_) * period_s_;
  pings_others_ = pings_others;
  const FlatMap<PeerId, double> before = std::exchange(watched_, {});
  for (const PeerId peer : peers) {
    if (peer == self_) continue;
    const auto known = before.find(peer);
    watched_[peer] = known == before.end() ? now_s : known->second;
    // Who was awaited may have had nothing to say.
    if (known == before.end()) last_heard_[peer] = {now_s};
  }
  if (!due_s()) last_heard_.clear();  // no beat() will forget those that were awaited
}

void Heartbeats::heard(PeerId from, double now_s) {
  const auto known = last_heard_.find(from);
  if (known != last_heard_.end()) known->second = {now_s};
  last_message_s_[from] = now_s;
}

std::optional<double> Heartbeats::last_message_s(PeerId peer) const {
  const auto message = last_message_s_.find(peer);
  return message == last_message_s_.end() ? std::nullopt : std::optional(message->second);
}

std::optional<double> Heartbeats::due_s() const {
  if (watched_.empty() && !pings_others_) return std::nullopt;
  return next_beat_s_;
}

void Heartbeats::beat(double now_s, const Awaited& awaited, const SignOfLife& sign_of_life,
                      Outbox& outbox) {
  if (!due_s() || now_s < next_beat_s_) return;
  const double late_s = now_s - next_beat_s_;
  if (late_s > very_late_s_) late_at_s_ = now_s;
  if (late_s > period_s_) {
    for (auto& [peer, heard] : last_heard_) {
      heard.at_s += late_s;
      if (heard.asked_s) *heard.asked_s += late_s;
    }
  }
  erase_if(last_heard_, [&](const auto& known) {
    const PeerId peer = known.first;
    return !watched_.contains(peer) && !awaited.judged.contains(peer) &&
           !awaited.owing.contains(peer);
  });
  for (const auto& [peer, since_s] : watched_) outbox.send(peer, sign_of_life(peer));
  for (const PeerId peer : awaited.judged) {
    if (peer == self_ || watched_.contains(peer)) continue;
    const auto [heard, is_new] = last_heard_.try_emplace(peer, Heard{now_s});
    const double silent_s = now_s - heard->second.at_s;
    if (is_new || silent_s >= std::max(period_s_, very_late_s_ / 2))
      ping(peer, heard->second, now_s, outbox);
  }
  for (const PeerId peer : awaited.owing) {
    if (peer == self_ || watched_.contains(peer) || awaited.judged.contains(peer)) continue;
    Heard& heard = last_heard_.try_emplace(peer, Heard{now_s}).first->second;
    const double last_s = std::max(heard.at_s, heard.last_asked_s.value_or(heard.at_s));
    if (now_s - last_s >= awaited.quiet_s) ping(peer, heard, now_s, outbox);
  }
  next_beat_s_ = now_s + period_s_;
}

void Heartbeats::ping(PeerId peer, Heard& heard, double now_s, Outbox& outbox) const {
  if (!heard.asked_s) heard.asked_s = now_s;
  heard.last_asked_s = now_s;
  outbox.send(peer, PingMessage{now_s});
}

std::vector<Heartbeats::Silent> Heartbeats::silent(double now_s, double patience_s) const {
  std::vector<Silent> silent;
  for (const auto& [peer, heard] : last_heard_) {
    const double since_s = silent_s(peer, heard, now_s);
    if (since_s > patience_s) silent.push_back({peer, since_s});
  }
  return silent;
}

std::optional<double> Heartbeats::regular_since_s(PeerId peer) const {
  const auto since_s = watched_.find(peer);
  if (since_s == watched_.end()) return std::nullopt;
  return std::max(since_s->second, late_at_s_);
}

double Heartbeats::silent_s(PeerId peer, double now_s) const {
  const auto known = last_heard_.find(peer);
  return known == last_heard_.end() ? 0 : silent_s(peer, known->second, now_s);
}

double Heartbeats::silent_s(PeerId peer, const Heard& heard, double now_s) const {
  if (watched_.contains(peer)) return now_s - heard.at_s;
  return heard.asked_s ? now_s - *heard.asked_s : 0;
}

}  // namespace swarmpi
