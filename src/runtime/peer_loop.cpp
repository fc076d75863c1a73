#include "runtime/peer_loop.hpp"

#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/lanes.hpp"

namespace swarmpi {
namespace {

// Without progress for so long, the peer that reports prints what it waits for.
constexpr double kPatienceS = 60;
// How long the last messages may take to leave this process.
constexpr double kFlushS = 2;

// Not a timer, heartbeat, ping or pong: these come also while the swarm stands still; and how far
// work has come is asked while it hangs.
bool is_progress(const Event& event) {
  if (holds_alternative<TimerDue>(event)) return false;
  if (holds_alternative<WorkProbed>(event)) return false;
  const auto* arrived = get_if<MessageArrived>(&event);
  return !arrived || !is_sign_of_life(arrived->message);
}

// The lane of storage that has answered an action, but for records.
std::optional<Lane> answered_lane(const Event& event) {
  const auto is = [&event]<class... Kinds>(const std::type_identity<Kinds>&...) {
    return (holds_alternative<Kinds>(event) || ...);
  };
  using std::type_identity;
  if (is(type_identity<StageStored>(), type_identity<StageLoaded>())) return Lane::stages;
  const bool run = is(type_identity<TermCreated>(), type_identity<CheckpointDurable>(),
                      type_identity<CheckpointDropped>(), type_identity<ManifestLoaded>(),
                      type_identity<EndDurable>(), type_identity<ProbeStored>());
  return run ? std::optional(Lane::run) : std::nullopt;
}

}  // namespace

Status PeerLoop::run() {
  last_progress_s_ = seams_.clock.now_s();
  handle(Started{});
  while (!peer_.done()) {
    const std::optional<Event> event = next_event();
    if (seams_.transport.ended()) {
      observers_.died(seams_.clock.now_s(), peer_.self());
      return Status::stopped("preempted");
    }
    if (!event) {
      return Status::failed(peer_.position() +
                            ": stalled: nothing is running or on its way; waiting for " +
                            peer_.waiting_for());
    }
    handle(*event);
  }
  seams_.transport.flush(kFlushS);
  return peer_.status();
}

void PeerLoop::handle(const Event& event) {
  const double now_s = seams_.clock.now_s();
  const PeerId self = peer_.self();
  count_answer(event);
  observers_.happened(now_s, self, event);
  if (seams_.transport.ended()) return;
  peer_.set_carried(seams_.transport.carried_s());
  if (!is_progress(event)) peer_.set_oldest_waits(inbox_.oldest_waits_s());  // it may be told
  for (Action& action : peer_.handle(event, now_s)) {
    observers_.asked(now_s, self, action);
    if (seams_.transport.ended()) return;
    execute(std::move(action));
  }
  if (const PayloadRef next = jobs_running_ > 0 ? peer_.read_next() : nullptr) {
    seams_.compute.will_read(next);
  }
  observers_.handled(now_s, self);
}

std::optional<Event> PeerLoop::next_event() {
  while (true) {
    if (seams_.transport.ended()) return std::nullopt;
    if (std::optional<Event> event = ready_event()) {
      if (is_progress(*event)) last_progress_s_ = seams_.clock.now_s();
      return event;
    }
    if (nothing_can_come()) return std::nullopt;
    const double now_s = seams_.clock.now_s();
    if (now_s - last_progress_s_ >= kPatienceS) {
      last_progress_s_ = now_s;
      if (peer_.reports_outcome()) {
        std::fprintf(stderr, "swarmpi: warning: %s: no progress for %.0f s; waiting for %s\n",
                     peer_.position().c_str(), kPatienceS, peer_.waiting_for().c_str());
      }
    }
    const double patient_until_s = last_progress_s_ + kPatienceS;
    const double until_s = std::min(timer_due_s_.value_or(patient_until_s), patient_until_s);
    seams_.transport.wait(inbox_.descriptor(), std::max(0.0, until_s - now_s));
  }
}

std::optional<Event> PeerLoop::ready_event() {
  // Timer and messages take turns: on a busy machine messages never cease, and heartbeats must not
  // wait for that; nor must messages wait where the timer is always due.
  if (!std::exchange(timer_was_last_, false) && timer_due_s_ &&
      seams_.clock.now_s() >= *timer_due_s_) {
    timer_due_s_.reset();
    timer_was_last_ = true;
    return TimerDue{};
  }
  // So do messages and what this process's own threads have done.
  if (std::exchange(inbox_is_next_, !inbox_is_next_)) {
    if (std::optional<Event> event = inbox_.take()) return event;
  }
  if (std::optional<Event> event = seams_.transport.receive()) return event;
  return inbox_.take();
}

bool PeerLoop::nothing_can_come() const {
  const bool stores = std::any_of(stores_pending_.begin(), stores_pending_.end(),
                                  [](const auto& lane) { return lane.second > 0; });
  return jobs_running_ == 0 && !stores && last_record_ == 0 && !timer_due_s_;
}

void PeerLoop::execute(Action action) {
  visit(Overloaded{
            [&](Send& a) { seams_.transport.send(a.to, std::move(a.message)); },
            [&](StartJob& a) {
              ++jobs_running_;
              seams_.compute.start(std::move(a.job));
            },
            [&](StoreRecord& a) {
              last_record_ = a.number;
              seams_.storage.take(std::move(a));
            },
            [&](SetTimer& a) { timer_due_s_ = a.due_s; },
            [&](Finish&) {},
            [&](KillPeer& a) { seams_.transport.kill(a.peer); },
            [&](SpawnPeer&) { seams_.transport.spawn(); },
            [&](ProbeWork&) {
              inbox_.post(WorkProbed{seams_.compute.cpu_s(), seams_.storage.progress(Lane::run),
                                     seams_.storage.progress(Lane::stages)});
            },
            [&](AbandonLane& a) { abandon(a.lane); },
            [&](MakeCollectiveId& a) { collect(a); },
            [&](MakeCollective& a) { collect(a); },
            [&](EnterCollective& a) { collect(a); },
            [&](AbortCollective& a) { collect(a); },
            [&](auto& a) {  // all other actions are for the storage
              ++stores_pending_[*lane_of(Action(a))];
              seams_.storage.take(std::move(a));
            },
        },
        action);
}

void PeerLoop::abandon(Lane lane) {
  stores_pending_[lane] = 0;
  if (lane == Lane::run) last_record_ = 0;
  seams_.storage.abandon(lane);
}

void PeerLoop::count_answer(const Event& event) {
  if (holds_alternative<JobFinished>(event)) --jobs_running_;
  if (const auto lane = answered_lane(event)) --stores_pending_[*lane];
  const auto* durable = get_if<RecordDurable>(&event);
  const bool all_durable = durable != nullptr && durable->number >= last_record_;
  if (all_durable || holds_alternative<TermOver>(event)) last_record_ = 0;
}

}  // namespace swarmpi
