#include "protocol/leader/roles.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/membership/failure_detector.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi {

Roles::Roles(PeerId self, const RunPlan& plan, const Start& start, View& view, RunHistory& history,
             LeaderRecord& record, Outbox& outbox, const double& now_s)
    : self_(self),
      plan_(plan),
      view_(view),
      history_(history),
      record_(record),
      outbox_(outbox),
      now_s_(now_s),
      learners_(plan, start.workers, start.highest_id_at_start),
      moves_(plan.torture_only.moves),
      rebalancing_(plan, now_s),
      newcomers_(start.peers, now_s) {}

void Roles::enter(const LearnedMessage& message, PeerId from) {
  if (view_.learns(from, message.stage)) learners_.enter(message, from);
}

// ---- Who comes

void Roles::spawn_newcomer() {
  newcomers_.give_up_late(now_s_);
  if (!plan_.swarm.spawn || departures_.departs(self_)) return;
  const auto staying =
      static_cast<std::int64_t>(view_.members().size() - departures_.departing().size());
  if (!newcomers_.due(staying, now_s_)) return;
  newcomers_.spawning();
  outbox_.act(SpawnPeer{});
}

void Roles::spawned(const PeerSpawned& spawned) {
  newcomers_.spawned(spawned.peer, now_s_);
  record_.store(EventRow{record_.run_time_s(), history_.committed().value, EventKind::spawn,
                         spawned.peer.value, -1, spawned.took_s, ""});
}

void Roles::spawn_failed(const SpawnFailed& failed) {
  newcomers_.failed(now_s_);
  record_.store_event(EventKind::spawn, history_.committed().value, 0, failed.why);
}

void Roles::lost(PeerId peer) {
  newcomers_.lost(peer, now_s_);
  departures_.lost(peer);
  times_.forget(peer);
  learners_.forget(peer);
}

// ---- Who learns

bool Roles::promote_learned() {
  const Step agreed = history_.agreement.agreed();
  if (agreed != history_.committed()) return false;
  const auto [ready, wrong] =
      learners_.judge(view_, departures_, agreed, history_.agreement.hashes());
  for (const auto& [peer, stage] : ready) promote(peer, stage);
  for (const auto& [peer, stage] : wrong) {
    drop_learner(peer, stage,
                 "learner dropped: its state differs from the one that all replicas agreed on");
  }
  return !ready.empty() || !wrong.empty();
}

void Roles::promote(PeerId peer, StageId stage) {
  learners_.promote(view_, peer, stage);
  record_.store_peer_event(EventKind::migrate, peer, stage, "");
}

bool Roles::drop_slow_learners() {
  const auto late =
      history_.steps.late_learners(view_, now_s_, plan_.torture_only.learner_patience_s);
  for (const auto& [peer, stage, waited_s, patience_s] : late) {
    double bytes = 0;
    for (const std::int64_t elements : plan_.elements_in(stage)) {
      bytes += static_cast<double>(elements) * sizeof(float);
    }
    drop_learner(
        peer, stage,
        fmt::format("learner dropped: a commit waited {:.3g} s for it; the gradient of its "
                    "stage, {:.3g} MB a step, has to come within {:.3g} s, over {:.3g} "
                    "Mb/s at least",
                    waited_s, bytes * 1e-6, patience_s, bytes * 8e-6 / patience_s));
  }
  return !late.empty();
}

void Roles::drop_learner(PeerId peer, StageId stage, const std::string& why) {
  const double pause_s = learners_.drop(view_, peer, stage, now_s_);
  history_.forget(peer, stage);
  const auto move = view_.move();
  if (move && move->peer == peer && !view_.serves(peer, move->from)) {
    view_.end_move();  // it has neither of its stages
    record_.store_peer_event(EventKind::migrate, peer, move->to,
                             "end of a move: it could not learn the new stage");
  }
  record_.store_peer_event(EventKind::dismiss, peer, stage,
                           fmt::format("{}; it may begin again in {:.3g} s", why, pause_s));
}

bool Roles::assign_learners() {
  if (plan_.swarm.has_pipelines()) return false;
  const auto needs = [this] {
    return stage_needs(plan_, view_, departures_, times_, rebalancing_.stage_loads());
  };
  const Step committed = history_.committed();
  const Learners::Progress progress{committed, history_.steps.sealed().value_or(committed)};
  return learners_.assign(view_, departures_, needs, progress, now_s_);
}

// ---- Who leaves

void Roles::begin_departures(const FailureDetector& failure_detector) {
  const auto heard_since = [&](PeerId peer, double at_s) {
    return peer == self_ || failure_detector.heard_since(peer, at_s);
  };
  for (const auto& [peer, why] :
       departures_.begin(view_, now_s_, plan_.torture_only.notices_together_s, heard_since)) {
    record_.store_peer_event(EventKind::notice, peer, {}, why);
  }
}

bool Roles::leaves_a_pipeline() const {
  if (!plan_.swarm.has_pipelines() || !plan_.recovers) return false;
  const std::set<PeerId>& departing = departures_.departing();
  return departing.size() < view_.members().size() &&
         std::any_of(departing.begin(), departing.end(),
                     [this](PeerId peer) { return !view_.members().at(peer).empty(); });
}

bool Roles::process_departures() {
  const Departures::HandedOver handed = departures_.hand_over(
      view_, [this](PeerId peer) { return learners_.may_begin(view_, peer, now_s_); }, plan_.needs);
  for (const auto& [peer, stage] : handed.gave_way) {
    history_.forget(peer, stage);
    record_.store_peer_event(EventKind::dismiss, peer, stage,
                             "learner dropped: it has no room beside what it is to learn instead");
  }
  bool changed = handed.view_changed;
  changed |= advance_move();  // the others of its stage may leave: then it stays
  const auto writes = [this](PeerId peer, StageId stage) {
    return history_.checkpoint_rounds.awaits(peer, stage);
  };
  const Departures::Progress progress{history_.steps.newest(), history_.committed(),
                                      history_.agreement.agreed(), writes};
  for (const auto& [peer, stage] : departures_.remove_drained(view_, progress)) {
    history_.forget(peer, stage);
    record_.store_peer_event(EventKind::migrate, peer, stage, "no longer serves the stage");
    changed = true;
  }
  changed |= advance_move();
  const bool drained = departures_.departs(self_) && view_.members().at(self_).empty();
  leader_has_left_ =
      drained && record_.rows().all_durable() && !history_.checkpoint_rounds.awaited();
  for (const PeerId peer : departures_.release_drained(view_, self_)) {
    learners_.forget(peer);
    outbox_.send(peer, ReleaseMessage{});
    record_.end_life(peer, &GoodputRow::idle_s);
    record_.store_peer_event(EventKind::leave, peer, {}, "");
    changed = true;
  }
  return changed;
}

// ---- Who moves

bool Roles::move_peers() {
  return moves_.advance(view_, departures_, learners_, history_.committed(), now_s_, plan_.needs);
}

bool Roles::rebalance() {
  const auto move =
      rebalancing_.decide(view_, departures_, learners_, history_.committed(), now_s_);
  if (!move) return false;
  const bool beside = Rebalancing::begin(view_, *move, plan_.needs);
  record_.store_peer_event(
      EventKind::migrate, move->peer, move->to,
      fmt::format("moves from stage {}{}", move->from.value,
                  beside ? "" : ", which it leaves first: it has no room for both"));
  return true;
}

bool Roles::advance_move() {
  if (!view_.move()) return false;
  const StageMove move = *view_.move();
  const bool learned = view_.learns(move.peer, move.to);
  const auto [changed, ended] = Rebalancing::advance(view_, departures_, plan_.needs);
  if (ended.empty()) return changed;
  if (learned) history_.forget(move.peer, move.to);
  record_.store_peer_event(EventKind::migrate, move.peer, move.to, "end of a move: " + ended);
  return true;
}

// ---- The view

void Roles::settle() {
  departures_.keep_last_replicas(view_);
  advance_move();
}

Hands Roles::hands() const {
  Hands hands;
  for (const auto& [peer, stages] : view_.members()) {
    const bool goes = departures_.departs(peer);
    (goes ? hands.last : stages.empty() ? hands.spares : hands.workers).push_back(peer);
  }
  if (hands.workers.empty() && hands.spares.empty()) hands.workers = std::exchange(hands.last, {});
  while (!hands.spares.empty() &&
         static_cast<std::int64_t>(hands.workers.size()) < learners_.wanted_workers(view_)) {
    hands.workers.push_back(hands.spares.front());
    hands.spares.erase(hands.spares.begin());
  }
  return hands;
}

void Roles::leave_history() {
  learners_.leave_history();
  departures_.leave_history();
  rebalancing_.leave_history();
}

}  // namespace swarmpi
