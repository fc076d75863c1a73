// What a peer does about silence. Suspicion changes no view: a suspect is killed, never just left
// out, for two peers that suspect each other must not both go on. Its death is then like any other.

#include <utility>

#include "core/text.hpp"
#include "swarm/peer.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {
namespace {

// All others wait so much longer than the leader: whoever cannot reach a leader that lives is dead
// before it suspects anybody.
constexpr double kLongerThanTheLeader = 1.5;
// Whoever has been heard within this part of the patience speaks.
constexpr double kSpeaks = 0.5;

}  // namespace

double Peer::patience_s() const {
  const bool leads = leader_id() == self_ || !plan_.recovers;
  return plan_.swarm.suspect_after_s * (leads ? 1 : kLongerThanTheLeader);
}

// Those who would lead one after the other, up to the first who is not silent: this peer at the
// latest.
std::vector<PeerId> Peer::line_of_succession() const {
  std::vector<PeerId> line;
  for (const auto& [peer, stages] : members().members) {
    if (dead_.contains(peer)) continue;
    line.push_back(peer);
    if (peer == self_ || !heartbeats_.is_silent(peer, now_s_, patience_s())) break;
  }
  return line;
}

bool Peer::asks_to_join() const { return asks_at_s_ && (!view_ || leader_id() != self_); }

std::set<PeerId> Peer::awaited() const {
  if (!plan_.recovers) return {};
  std::set<PeerId> peers;
  if (holds(Rule::ask_who_owes)) peers = server_.awaited();
  for (const PeerId peer : line_of_succession()) peers.insert(peer);
  return peers;
}

std::vector<PeerId> Peer::others() const {
  std::set<PeerId> others = inquiry_ ? inquiry_->awaited : std::set<PeerId>();
  for (const auto& [peer, stages] : members().members) others.insert(peer);
  std::erase_if(others, [this](PeerId peer) { return peer == self_ || dead_.contains(peer); });
  return {others.begin(), others.end()};
}

void Peer::watch_others() {
  if (!members().members.contains(self_)) return;  // comes only now
  const PeerId leader = leader_id();
  heartbeats_.watch(leader == self_ ? others() : std::vector{leader}, now_s_);
}

void Peer::suspect_the_silent() {
  const std::vector<Heartbeats::Silent> all = heartbeats_.silent(now_s_, patience_s());
  if (!plan_.recovers) {
    for (const auto& [peer, since_s] : all) {
      lost(peer, format("peer %d has been silent for %.1f s", peer.value, since_s));
    }
    return;
  }
  const bool some_have_left = end_ && leaves_at_s_;
  if (some_have_left || (asks_at_s_ && !view_)) return;
  const std::vector<PeerId> line = line_of_succession();
  const bool next_to_lead = !line.empty() && line.back() == self_;
  for (const auto& [peer, since_s] : all) {
    if (dead_.contains(peer)) continue;
    if (leader_id() == self_ || (next_to_lead && peer < self_)) {
      kill(peer);
    } else if (!line.empty() && peer > line.back()) {
      outbox_.send(leader_id(), SuspectMessage{peer});
    }
  }
  follow_kill_orders();
  if (!leader_) return;
  // Who is silent, or is being killed, is not silent because of a link.
  const auto speaks = [&](PeerId peer) {
    return view_->members.contains(peer) && !dead_.contains(peer) && !kill_orders_.contains(peer) &&
           !heartbeats_.is_silent(peer, now_s_, kSpeaks * patience_s());
  };
  if (const auto peer = silent_links_.worst(now_s_, speaks)) kill(*peer, true);
}

void Peer::kill(PeerId peer, bool over_a_link) {
  if (!holds(Rule::suspects_are_killed)) return;
  if (kill_orders_.try_emplace(peer, KillOrder{now_s_, over_a_link}).second) {
    leader_was_silent_ |= peer == leader_id();
    outbox_.act(KillPeer{peer});
  }
}

void Peer::follow_kill_orders() {
  std::vector<PeerId> alive;
  for (auto it = kill_orders_.begin(); it != kill_orders_.end();) {
    const auto [peer, order] = *it;
    const bool overdue = now_s_ - order.at_s > plan_.swarm.suspect_after_s;
    const bool speaks = !order.over_a_link && heartbeats_.spoke_s(peer).value_or(0) > order.at_s;
    if (overdue && !speaks) alive.push_back(peer);
    it = overdue && speaks ? kill_orders_.erase(it) : std::next(it);
  }
  for (const PeerId peer : alive) cannot_kill(peer);
}

// It may live, and go on: nobody else must.
void Peer::cannot_kill(PeerId peer) {
  if (dead_.contains(peer) || in_doubt_since_s_) return;
  if (leader_) return leader_->unreachable(peer);
  if (end_) return leave();
  end_for_all(Status::stopped(format("peer %d does not answer, and cannot be killed", peer.value)));
}

// ---- A peer that was stopped itself

// The others may have gone on without it: it rests until one of them answers.
void Peer::doubt_if_late() {
  const double patience_s = plan_.swarm.suspect_after_s;
  if (!plan_.recovers || !timer_s_ || now_s_ <= *timer_s_ + patience_s) return;
  if (in_doubt_since_s_ && now_s_ <= *in_doubt_since_s_ + patience_s) return;
  if (others().empty() || asks_to_join() || !holds(Rule::rest_in_doubt)) return;
  in_doubt_since_s_ = now_s_;
  kill_orders_.clear();
  ask_the_others();
}

void Peer::ask_the_others() {
  for (const PeerId peer : others()) outbox_.send(peer, PingMessage{now_s_});
}

// What is heard meanwhile waits, but for answers and deaths.
bool Peer::waits_in_doubt(const Event& event) const {
  if (!in_doubt_since_s_) return false;
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) {
    const MessageBody& body = arrived->message.body;
    return !std::holds_alternative<PingMessage>(body) &&
           !std::holds_alternative<PongMessage>(body) &&
           !std::holds_alternative<RefusedMessage>(body);
  }
  return !std::holds_alternative<PeerLost>(event) && !std::holds_alternative<TimerDue>(event);
}

void Peer::ask_again_in_doubt() {
  ask_the_others();
  give_up_in_doubt();
}

void Peer::give_up_in_doubt() {
  const bool long_enough = now_s_ > *in_doubt_since_s_ + plan_.swarm.suspect_after_s;
  if (!long_enough && !others().empty()) return;
  finish(Status::stopped("this peer was stopped for too long: nobody answers it"));
}

void Peer::receive(const PongMessage& message, PeerId) {
  if (!in_doubt_since_s_ || message.sent_s < *in_doubt_since_s_) return;
  in_doubt_since_s_.reset();
  for (const Event& event : std::exchange(held_, {})) learn(event);
}

// Whoever was wrongly said to be dead asks its leader, and hears of it.
void Peer::refuse(const MessageArrived& arrived) {
  const MessageBody& body = arrived.message.body;
  const bool asks = std::holds_alternative<HeartbeatMessage>(body) ||
                    std::holds_alternative<PingMessage>(body) ||
                    std::holds_alternative<InquiryMessage>(body);
  if (asks && plan_.recovers && holds(Rule::tell_the_forgotten))
    outbox_.send(arrived.from, RefusedMessage{});
}

}  // namespace swarmpi
