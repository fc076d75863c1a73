#include "protocol/membership/failure_detector.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/membership/beat_period.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi {
namespace {

// A SuspectMessage counts for this part of the leader's patience; then it must be repeated.
constexpr double kReportCounts = 1.0 / 3;

// A peer that was heard within this part of the patience counts as not silent.
constexpr double kHeardRecently = 0.5;
// Whoever would have the leader killed asks the others after this part of its patience whether they
// hear it: their answers are here when that is over.
constexpr double kAsksAfter = 0.5;
// Who falls silent again so soon after an order was dropped, in suspect_after_s, is as good as
// silent all the time: a word now and then must not put off for ever that it is given up.
constexpr double kPardonTimes = 3;

}  // namespace

FailureDetector::FailureDetector(const Membership& membership, const RunPlan& plan, Outbox& outbox)
    : membership_(membership),
      plan_(plan),
      outbox_(outbox),
      heartbeats_(membership.self(), plan.swarm.heartbeat_s,
                  kHeardRecently * plan.swarm.suspect_after_s),
      words_(plan.swarm.heartbeat_s, plan.swarm.suspect_after_s),
      silent_links_(plan.swarm.heartbeat_s, kReportCounts * plan.swarm.suspect_after_s,
                    plan.swarm.suspect_after_s) {}

// ---- Signs of life

void FailureDetector::set_period() {
  const SwarmConfig& swarm = plan_.swarm;
  const std::size_t members = membership_.members();
  const double of_others_s = beat_period_s(swarm, members, swarm.suspect_after_s);
  const bool are_patient = plan_.recovers && membership_.leads();
  heartbeats_.set_period(
      are_patient ? beat_period_s(swarm, members, kLongerThanTheLeader * swarm.suspect_after_s)
                  : of_others_s);
  words_.set_period(of_others_s);
  silent_links_.set_period(of_others_s);
}

void FailureDetector::heard(PeerId from, double now_s) {
  if (!words_.stands_still(from)) heartbeats_.heard(from, now_s);
}

void FailureDetector::heard(PeerId from, const HeartbeatMessage& beat, double now_s) {
  words_.came(from, beat, now_s, heartbeats_.regular_since_s(from));
  if (beat.answers_s >= 0) answered(from, beat.answers_s);
}

HeartbeatMessage FailureDetector::answer_to(PeerId pinging, double now_s, double answers_s) const {
  HeartbeatMessage beat = heartbeat_for_all(now_s);
  beat.answers_s = answers_s;
  beat.you_silent_s = heartbeats_.silent_s(pinging, now_s);
  return beat;
}

HeartbeatMessage FailureDetector::heartbeat_for_all(double now_s) const {
  HeartbeatMessage beat;
  beat.handled = handled_;
  beat.oldest_waits_s = oldest_waits_s_;
  const PeerId leader = membership_.leader();
  if (!membership_.leads() && !heartbeats_.watches(leader)) return beat;
  beat.leader = leader;
  beat.leader_silent_s = heartbeats_.silent_s(leader, now_s);
  return beat;
}

void FailureDetector::beat(double now_s, const FlatSet<PeerId>& who_owe,
                           const std::set<PeerId>& who_decide) {
  Heartbeats::Awaited awaited;
  const std::vector<PeerId> asked = asked_about_the_leader(now_s);
  if (plan_.recovers) {
    const std::vector<PeerId> line = line_of_succession(now_s, patience_s());
    awaited.judged.insert(line.begin(), line.end());
    awaited.judged.insert(asked.begin(), asked.end());
    awaited.judged.insert(who_decide.begin(), who_decide.end());
    awaited.owing = who_owe;
    // Replicas of a reduction send to each other every few seconds only, and a death the leader
    // sees without pings.
    awaited.quiet_s = plan_.swarm.suspect_after_s;
  }
  const HeartbeatMessage for_all = heartbeat_for_all(now_s);
  const auto sign_of_life = [&](PeerId to) {
    HeartbeatMessage beat = for_all;
    beat.you_silent_s = heartbeats_.silent_s(to, now_s);
    return beat;
  };
  heartbeats_.beat(now_s, awaited, sign_of_life, outbox_);
  for (const PeerId peer : asked) outbox_.send(peer, PingMessage{now_s});
}

std::vector<PeerId> FailureDetector::asked_about_the_leader(double now_s) const {
  if (!plan_.recovers || membership_.leads()) return {};
  const std::vector<PeerId> line = line_of_succession(now_s, kAsksAfter * patience_s());
  const bool next_to_lead = !line.empty() && line.back() == membership_.self();
  return next_to_lead ? membership_.others() : std::vector<PeerId>();
}

double FailureDetector::patience_s() const {
  const bool longer = plan_.recovers && !membership_.leads();
  return plan_.swarm.suspect_after_s * (longer ? kLongerThanTheLeader : 1);
}

std::vector<Heartbeats::Silent> FailureDetector::silent(double now_s) const {
  return heartbeats_.silent(now_s, patience_s());
}

std::vector<PeerId> FailureDetector::line_of_succession(double now_s, double patience_s) const {
  // The leader is the first in line, unless a peer that is in no view is to lead.
  const PeerId leader = membership_.leader();
  const bool is_first = membership_.contains(leader) && !membership_.is_dead(leader);
  const bool ends_there =
      leader == membership_.self() || !heartbeats_.is_silent(leader, now_s, patience_s);
  if (is_first && ends_there) return {leader};
  std::vector<PeerId> line;
  for (const PeerId peer : membership_.line()) {
    line.push_back(peer);
    const bool is_this = peer == membership_.self();
    if (is_this || !heartbeats_.is_silent(peer, now_s, patience_s)) return line;
  }
  return line;
}

// ---- Suspicion

std::vector<Survivor> FailureDetector::suspect(double now_s) {
  const PeerId self = membership_.self();
  const std::vector<PeerId> line = line_of_succession(now_s, patience_s());
  const bool next_to_lead = !line.empty() && line.back() == self;
  for (const auto& [peer, since_s] : silent(now_s)) {
    if (membership_.is_dead(peer)) continue;
    const bool would_lead = std::find(line.begin(), line.end(), peer) != line.end();
    const bool is_its_part = membership_.leads() || (next_to_lead && would_lead);
    if (is_its_part && !another_hears_the_leader(now_s)) {
      kill(peer, {now_s, now_s},
           {since_s, fmt::format("peer {} had not heard it for {:.1f} s", self.value, since_s)});
    } else if (!is_its_part && !line.empty() && !would_lead) {
      outbox_.send(membership_.leader(), SuspectMessage{peer});
    }
  }
  if (membership_.leads()) {
    kill_the_deaf(now_s);
  } else {
    report_the_gone(now_s);
  }
  return overdue(now_s);
}

// That a process is gone each peer hears from its own MPI, which may say so of one that lives.
void FailureDetector::report_the_gone(double now_s) {
  // In a long run more have died than live: they are looked through where something has changed.
  const std::pair newest(membership_.view_number(), membership_.dead().size());
  if (std::exchange(gone_in_, newest) != newest) {
    std::map<PeerId, double> gone_since_s;
    for (const PeerId peer : membership_.dead()) {
      if (!membership_.contains(peer)) continue;
      const auto known = gone_since_s_.find(peer);
      gone_since_s[peer] = known == gone_since_s_.end() ? now_s : known->second;
    }
    gone_since_s_ = std::move(gone_since_s);
  }
  const PeerId leader = membership_.leader();
  for (const auto& [peer, since_s] : gone_since_s_) {
    if (peer == leader || now_s - since_s <= patience_s()) continue;
    outbox_.send(leader, SuspectMessage{peer});
  }
}

// It lives, then, and this peer's link from it is cut: it sees to that, for it hears this peer, or
// does not hear it either.
bool FailureDetector::another_hears_the_leader(double now_s) const {
  if (membership_.leads()) return false;
  const std::vector<PeerId> others = membership_.others();
  const PeerId leader = membership_.leader();
  return std::any_of(others.begin(), others.end(), [&](PeerId peer) {
    return peer != leader && words_.hears(peer, leader, now_s);
  });
}

bool FailureDetector::hears_nobody(double now_s) const {
  const std::vector<PeerId> others = membership_.others();
  const double since_s = now_s - patience_s();
  return others.size() > 1 && std::none_of(others.begin(), others.end(),
                                           [&](PeerId peer) { return heard_since(peer, since_s); });
}

std::set<PeerId> FailureDetector::deaf_members(double now_s) const {
  std::set<PeerId> deaf = words_.deaf(now_s);
  std::erase_if(deaf, [this](PeerId peer) {
    return !membership_.contains(peer) || membership_.is_dead(peer);
  });
  return deaf;
}

bool FailureDetector::is_not_heard(double now_s) const {
  const std::size_t deaf = membership_.leads() ? deaf_members(now_s).size() : 0;
  return deaf > 1 && 2 * deaf > membership_.others().size();
}

// Of two that hear each other one way only, the one that does not hear goes.
void FailureDetector::kill_the_deaf(double now_s) {
  if (is_not_heard(now_s)) return;
  for (const PeerId peer : deaf_members(now_s)) {
    kill(peer, {now_s, now_s, Reason::deaf},
         {0, fmt::format("peer {} heard it, but it does not hear that peer: a link is cut one way",
                         membership_.self().value)});
  }
}

void FailureDetector::reported(PeerId from, PeerId other, double now_s) {
  for (const PeerId end : silent_links_.reported(from, other, now_s))
    outbox_.send(end, PingMessage{now_s});
  const SilentLinks::Link link = SilentLinks::between(from, other);
  for (const PeerId end : {from, other}) {
    const auto order = kill_orders_.find(end);
    if (order != kill_orders_.end() && order->second.cut_links.contains(link))
      order->second.link_reported_s = now_s;
  }
}

void FailureDetector::answered(PeerId peer, double sent_s) {
  silent_links_.answered(peer, sent_s);
  const auto order = kill_orders_.find(peer);
  if (order != kill_orders_.end() && sent_s >= order->second.at_s) order->second.answered = true;
}

void FailureDetector::kill_at_a_cut_link(double now_s) {
  // A peer that is silent to this one too, or is being killed, is not silent because of a link.
  const auto heard_recently = [&](PeerId peer) {
    return membership_.contains(peer) && !membership_.is_dead(peer) &&
           !kill_orders_.contains(peer) &&
           !heartbeats_.is_silent(peer, now_s, kHeardRecently * patience_s());
  };
  auto worst = silent_links_.worst(now_s, heard_recently);
  if (!worst) return;
  kill(
      worst->peer, {now_s, now_s, Reason::cut_link, std::move(worst->links)},
      {0, fmt::format("peer {} heard it, but a peer that awaits something from it does not: a link "
                      "is cut",
                      membership_.self().value)});
}

void FailureDetector::kill(PeerId peer, KillOrder order, Suspicion suspicion) {
  const auto pardon = pardons_.find(peer);
  if (pardon != pardons_.end()) {
    const double since_s = order.at_s - pardon->second.at_s;
    if (since_s <= kPardonTimes * plan_.swarm.suspect_after_s)
      order.first_s = pardon->second.first_s;
    pardons_.erase(pardon);
  }
  const auto [entry, is_new] = kill_orders_.try_emplace(peer, order);
  if (!is_new) return;
  suspicions_[peer] = std::move(suspicion);
  send(peer, entry->second);
}

std::vector<Survivor> FailureDetector::overdue(double now_s) {
  std::vector<Survivor> survivors;
  for (auto it = kill_orders_.begin(); it != kill_orders_.end();) {
    auto& [peer, order] = *it;
    if (membership_.is_dead(peer)) {
      it = kill_orders_.erase(it);
    } else if (now_s - order.at_s <= plan_.swarm.suspect_after_s) {
      ++it;
    } else if (has_no_reason_now(peer, order, now_s)) {
      suspicions_.erase(peer);
      if (order.was_sent) pardons_[peer] = {order.first_s, now_s};
      it = kill_orders_.erase(it);
    } else {
      order.at_s = now_s;
      send(peer, order);
      survivors.push_back({peer, now_s - order.first_s});
      ++it;
    }
  }
  return survivors;
}

void FailureDetector::send(PeerId peer, KillOrder& order) {
  outbox_.send(peer, PingMessage{order.at_s});
  const bool was_held_back = std::exchange(order.held_back, hears_nobody(order.at_s));
  if (order.held_back) return;
  const bool sent_before = std::exchange(order.was_sent, true);
  if (was_held_back && !sent_before) order.first_s = order.at_s;
  outbox_.act(KillPeer{peer});
}

// What a silent peer had sent may come for long, from buffers: only an answer shows that it lives.
bool FailureDetector::has_no_reason_now(PeerId peer, const KillOrder& order, double now_s) const {
  switch (order.reason) {
    case Reason::silent:
      break;
    case Reason::deaf:
      return !words_.deaf(now_s).contains(peer);
    case Reason::cut_link:
      return order.link_reported_s < order.at_s;
  }
  return order.answered || another_hears_the_leader(now_s);
}

bool FailureDetector::first_seen_to_survive(PeerId peer) {
  const auto order = kill_orders_.find(peer);
  return order != kill_orders_.end() && !order->second.held_back &&
         !std::exchange(order->second.survives, true);
}

// Who is heard answers for itself, though a link of it is cut.
std::set<PeerId> FailureDetector::unkillable() const {
  std::set<PeerId> peers;
  for (const auto& [peer, order] : kill_orders_) {
    const bool silent = order.reason == Reason::silent && !order.answered;
    if (order.survives && silent && !order.held_back) peers.insert(peer);
  }
  return peers;
}

std::optional<Suspicion> FailureDetector::suspicion(PeerId peer) const {
  const auto found = suspicions_.find(peer);
  return found == suspicions_.end() ? std::nullopt : std::optional(found->second);
}

void FailureDetector::forget(PeerId peer) {
  kill_orders_.erase(peer);
  pardons_.erase(peer);
  heartbeats_.forget(peer);
  words_.forget(peer);
  silent_links_.forget(peer);
}

}  // namespace swarmpi
