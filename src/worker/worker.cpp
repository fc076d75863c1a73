#include "worker/worker.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

// How long nothing may happen before a person is told what is being waited for.
constexpr double kPatienceS = 60;

}  // namespace

Worker::Worker(Peer& peer, Seams seams, Inbox& inbox, Observer observer)
    : peer_(peer), seams_(seams), inbox_(inbox), observer_(std::move(observer)) {}

Status Worker::run() {
  std::optional<Event> event = Started{};
  while (!peer_.done()) {
    if (event) {
      observe(*event);
      for (Action& action : peer_.handle(*event, seams_.clock.now_s())) {
        execute(std::move(action));
      }
    }
    if (peer_.done()) break;
    event = next_event();
    if (event) continue;
    const bool idle = jobs_running_ == 0 && stores_pending_ == 0 && unconfirmed_.empty();
    if (idle && !timer_due_s_) return stalled();
    std::fprintf(stderr, "swarmpi: for %.0f s nothing has happened; running: %s\n", kPatienceS,
                 peer_.waiting_for().c_str());
  }
  return peer_.status();
}

std::optional<Event> Worker::next_event() {
  if (std::optional<MessageArrived> message = seams_.transport.receive()) {
    return std::move(*message);
  }
  if (!timer_due_s_) return inbox_.take(kPatienceS);
  const double left_s = *timer_due_s_ - seams_.clock.now_s();
  if (std::optional<Event> event = inbox_.take(std::clamp(left_s, 0.0, kPatienceS))) return event;
  if (seams_.clock.now_s() < *timer_due_s_) return std::nullopt;
  timer_due_s_.reset();
  return TimerDue{};
}

// Nothing runs, nothing is stored, nothing was heard: nothing can come any more.
Status Worker::stalled() const {
  return Status::failed("stalled: waiting for " + peer_.waiting_for());
}

void Worker::execute(Action action) {
  std::visit(Overloaded{
                 [&](Send& a) { seams_.transport.send(a.to, std::move(a.message)); },
                 [&](StartJob& a) {
                   ++jobs_running_;
                   seams_.compute.start(std::move(a.job));
                 },
                 [&](StoreRecord& a) {
                   unconfirmed_.push_back(a);
                   seams_.storage.store(std::move(a));
                 },
                 [&](SetTimer& a) { timer_due_s_ = a.due_s; },
                 [&](Finish&) {},
                 [&](auto& a) {
                   ++stores_pending_;
                   seams_.storage.store(std::move(a));
                 },
             },
             action);
}

void Worker::observe(const Event& event) {
  if (std::holds_alternative<JobFinished>(event)) --jobs_running_;
  const bool stored = std::holds_alternative<TermCreated>(event) ||
                      std::holds_alternative<StageStored>(event) ||
                      std::holds_alternative<CheckpointDurable>(event) ||
                      std::holds_alternative<CompletionDurable>(event);
  if (stored) --stores_pending_;
  const auto* durable = std::get_if<RecordDurable>(&event);
  if (!durable) return;
  while (!unconfirmed_.empty() && unconfirmed_.front().number <= durable->number) {
    if (observer_) observer_(unconfirmed_.front());
    unconfirmed_.pop_front();
  }
}

}  // namespace swarmpi
