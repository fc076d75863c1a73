#include "torture/rules/work_in_progress.hpp"

#include <fmt/core.h>

#include "protocol/messages/pass_jobs.hpp"
#include "simulation/event_trace.hpp"

namespace swarmpi {

std::string WorkInProgress::starts(PeerId peer, const Job& job, bool has_stage, bool is_behind) {
  ++jobs_;
  if (!computing_.insert(peer).second) return "one job at a time: another began";
  if (!has_stage) {
    return fmt::format("only replicas and learners of a stage do its jobs: a job of stage {}",
                       stage_of(job).value);
  }
  const auto begin = [&](const WorkId& work, WorkCount::Pass pass) {
    const bool needed = is_behind || count_.begin(peer, work, pass) || may_be_repeated_;
    return needed ? "" : "no pass is repeated without need: " + describe(work);
  };
  if (const auto* j = get_if<ForwardJob>(&job)) return begin(j->work, WorkCount::Pass::forward);
  if (const auto* j = get_if<BackwardJob>(&job)) {
    return begin(j->work, WorkCount::Pass::backward);
  }
  return "";
}

void WorkInProgress::finished(PeerId peer, const JobResult& result) {
  computing_.erase(peer);
  const auto through = [this](const MicrobatchId& microbatch) {
    for (auto& [leader, in_flight] : in_flight_) in_flight.erase(microbatch);
  };
  if (const auto* pass = get_if<BackwardResult>(&result)) {
    const bool last = pass->work.stage.value + 1 == plan_.stages();
    recomputed_ += pass->with_forward && !last ? 1 : 0;
    if (pass->work.stage.value == 0) through(pass->work.microbatch);
  } else if (const auto* forward = get_if<ForwardResult>(&result)) {
    if (forward->work.stage.value + 1 == plan_.stages()) through(forward->work.microbatch);
  }
}

bool WorkInProgress::notes_issue(Incarnation incarnation, const MicrobatchId& microbatch) {
  return issued_.insert({incarnation, microbatch}).second;
}

std::string WorkInProgress::issues(PeerId leader, Incarnation incarnation,
                                   const MicrobatchId& microbatch) {
  if (!notes_issue(incarnation, microbatch)) {
    ++repairs_;
    return "";
  }
  std::set<MicrobatchId>& in_flight = in_flight_[leader];
  in_flight.insert(microbatch);
  if (static_cast<std::int64_t>(in_flight.size()) <= plan_.window) return "";
  return fmt::format("the window bounds the microbatches in flight: {} are", in_flight.size());
}

void WorkInProgress::died(PeerId peer, bool led, Step committed) {
  count_.died(peer, led, committed);
  computing_.erase(peer);
}

void WorkInProgress::restarted(Step step) {
  count_.restarted(step);
  in_flight_.clear();
}

// A death can undo all open steps; what a death just before it has undone is counted with it, and
// what is planned at deadlines since.
std::string WorkInProgress::too_much() const {
  if (may_be_repeated_) return "";
  const std::int64_t steps = (2 + plans_at_deadlines_) * plan_.delay() * plan_.stages();
  const std::int64_t backward = steps * plan_.train.microbatches;
  const std::int64_t forward = backward + steps * plan_.validation_microbatches;
  for (const DeathCost& death : deaths()) {
    if (death.repeated <= backward && death.forward_again <= forward) continue;
    return fmt::format(
        "after the death of peer {} {} backward and {} forward passes were repeated, of {} and {} "
        "in the open steps",
        death.peer.value, death.repeated, death.forward_again, backward, forward);
  }
  return "";
}

}  // namespace swarmpi
