// A server's work on microbatches: which job comes next, and what its result leads to.

#include <algorithm>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"
#include "swarm/rules.hpp"
#include "swarm/server.hpp"

namespace swarmpi {
namespace {

StageId stage_of(const Job& job) {
  return std::visit(Overloaded{[](const ForwardJob& j) { return j.work.stage; },
                               [](const BackwardJob& j) { return j.work.stage; },
                               [](const auto& j) { return j.stage; }},
                    job);
}

std::string describe(const char* verb, const WorkId& work) {
  return format("%s of microbatch %d of step %lld in stage %d", verb, work.microbatch.index,
                static_cast<long long>(work.microbatch.step.value), work.stage.value);
}

std::string describe(const Job& job) {
  return std::visit(
      Overloaded{[](const ForwardJob& j) { return describe("forward pass", j.work); },
                 [](const BackwardJob& j) { return describe("backward pass", j.work); },
                 [](const ApplyJob& j) {
                   return format("update of step %lld in stage %d",
                                 static_cast<long long>(j.record->step.value), j.stage.value);
                 },
                 [](const PrepareJob& j) { return format("room for stage %d", j.stage.value); },
                 [](const DropJob& j) { return format("leaving stage %d", j.stage.value); },
                 [](const ReadJob& j) {
                   return format("reading tensor %d of stage %d", j.tensor, j.stage.value);
                 },
                 [](const WriteJob& j) {
                   return format("writing tensor %d of stage %d", j.tensor, j.stage.value);
                 },
                 [](const auto& j) {
                   return format("reduction of chunk %d of step %lld in stage %d", j.chunk,
                                 static_cast<long long>(j.step.value), j.stage.value);
                 }},
      job);
}

}  // namespace

// ---- Which job

bool Server::weights_ready(const WorkId& work) const {
  const Served& state = served_.at(work.stage);
  const bool applied = state.applied.value >= plan_.starts_after(work.microbatch.step);
  return !state.loading && (applied || !holds(Rule::weights_first));
}

std::optional<Job> Server::next_job() {
  for (auto drop = drops_.begin(); drop != drops_.end(); ++drop) {
    if (being_written_.contains(drop->stage)) continue;
    const DropJob job = *drop;
    drops_.erase(drop);
    return job;
  }
  if (auto job = next_learning_job()) return job;
  if (auto job = next_application()) return job;
  if (auto job = next_reduction_job()) return job;
  return next_microbatch_job();
}

std::optional<Job> Server::next_application() {
  for (auto it = applications_.begin(); it != applications_.end(); ++it) {
    const Served& state = served_.at(it->stage);
    const bool being_written = holds(Rule::write_undisturbed) && being_written_.contains(it->stage);
    if (being_written || state.loading) continue;
    ApplyJob job = *it;
    if (state.learning) {
      if (state.learning->room != Learning::Room::ready) continue;
      // Without the step's gradient what is here falls behind.
      const auto reduction = state.reductions.find(job.record->step);
      const bool follows = job.record->skipped ||
                           (reduction != state.reductions.end() && reduction->second.complete());
      job.tensors = state.learning->here;
      if (holds(Rule::fall_behind) && !follows) job.tensors.assign(job.tensors.size(), false);
      updated_ = job.tensors;
    }
    applications_.erase(it);
    return job;
  }
  return std::nullopt;
}

// A frozen accumulator takes nothing more: what it lacks waits for the seal to be re-opened.
bool Server::may_run_backward(const WorkId& id) {
  if (!weights_ready(id)) return false;
  const Accumulator& own = accumulator(id.stage, id.microbatch.step);
  const bool frozen = holds(Rule::freeze) && own.frozen;
  return !frozen || own.settled || own.microbatches.contains(id.microbatch.index);
}

// Backward first: it frees memory and feeds the stages upstream. Maps are ordered by step, then
// index.
std::optional<Job> Server::next_microbatch_job() {
  for (auto it = backwards_.begin(); it != backwards_.end(); ++it) {
    const WorkId& id = it->first;
    if (!may_run_backward(id)) continue;
    const Step step = id.microbatch.step;
    const Accumulator& own = accumulator(id.stage, step);
    const bool add = !own.settled && !own.microbatches.contains(id.microbatch.index);
    Job job =
        BackwardJob{id, works_.at(id).arrival.input, it->second, chronicle_.exponents(step), add};
    backwards_.erase(it);
    return job;
  }
  for (auto it = forwards_.begin(); it != forwards_.end(); ++it) {
    if (!weights_ready(*it)) continue;
    const Work& work = works_.at(*it);
    if (lost_way(*it, work)) continue;
    Job job = ForwardJob{*it, work.arrival.input};
    forwards_.erase(it);
    return job;
  }
  return std::nullopt;
}

void Server::start_job() {
  if (running_) return;
  start_loading();
  // Stages are made, dropped and refreshed by jobs and by loading: never by both at a time.
  if (loads_ > 0 && holds(Rule::loading_stages_rest)) return;
  std::optional<Job> job = next_job();
  if (!job) return;
  running_ = Running{describe(*job), stage_of(*job), now_s_};
  if (const auto state = served_.find(running_->stage); state != served_.end()) {
    state->second.use.queue += static_cast<double>(forwards_.size() + backwards_.size());
    ++state->second.queue_samples;
  }
  outbox_.act(StartJob{*std::move(job)});
}

// ---- What came of it

void Server::finished(const JobFinished& job) {
  SWARMPI_CHECK(running_.has_value(), "a job that finishes was started");
  // On a busy machine a job begins late, and is heard of late.
  idle_s_ += std::max(0.0, now_s_ - running_->started_s - job.duration_s);
  const auto state = served_.find(running_->stage);
  const bool is_void = holds(Rule::left_jobs_are_void) && running_->void_by_now;
  if (state != served_.end() && !is_void) {
    state->second.use.compute_s += job.duration_s;
    std::visit([&](const auto& result) { handle(result, job.duration_s); }, job.result);
  }
  running_.reset();
}

// Only where the sender has a choice.
void Server::report_forward_done(const WorkId& id, const Work& work, double compute_s) {
  if (id.microbatch.purpose != Purpose::train || view_.replicas(id.stage).size() < 2) return;
  if (!alive(work.arrival.from)) return;
  const Arrival& came = work.arrival;
  outbox_.send(came.from,
               ForwardDone{id, running_->started_s - came.arrived_s, compute_s, came.sent_s});
}

void Server::handle(const ForwardResult& result, double duration_s) {
  const WorkId& id = result.work;
  const auto found = works_.find(id);
  if (found == works_.end()) return;  // committed meanwhile: a repair had it done once more
  Work& work = found->second;
  work.forward_due = false;
  report_forward_done(id, work, duration_s);
  if (in_last_stage(id)) {
    note_loss(id.microbatch, result.loss_nats);
  } else if (lost_way(id, work)) {
    work.output = result.output;  // waits for another way
  } else {
    send_output(id, work, result.output);
    if (!work.output && keep(work, result.output)) work.output = result.output;
  }
  tidy(found);
}

void Server::handle(const BackwardResult& result, double duration_s) {
  const WorkId& id = result.work;
  const bool added = !result.contributions.empty();
  if (added) note_contribution(result);
  PeerRow& use = served(id.stage).use;
  ++use.microbatches;
  if (!added) {
    ++use.repeated;
    use.recovery_s += duration_s;
    note_not_added(id);
  }
  const auto found = works_.find(id);
  if (found == works_.end()) return;  // committed meanwhile
  Work& work = found->second;
  if (in_last_stage(id)) {
    note_loss(id.microbatch, result.loss_nats);
    report_forward_done(id, work, duration_s);
  }
  work.backward_due = false;
  work.input_gradient = result.input_gradient;
  send_back(id, work);
  const bool wanted = holds(Rule::keep_undelivered) && undeliverable(id, work);
  if (!wanted && !keep(work, work.input_gradient)) work.input_gradient.reset();
  tidy(found);
}

void Server::note_contribution(const BackwardResult& result) {
  const WorkId& id = result.work;
  Accumulator& own = accumulator(id.stage, id.microbatch.step);
  SWARMPI_CHECK(!own.frozen || own.settled, "a frozen accumulator takes nothing more");
  own.microbatches.insert(id.microbatch.index);
  for (std::size_t i = 0; i < own.tensors.size(); ++i)
    own.tensors[i].merge(result.contributions[i]);
  report_.contributions.push_back({id, result.contributions});
}

// If the stage is re-opened after all, this microbatch is needed once more.
void Server::note_not_added(const WorkId& id) {
  if (id.microbatch.step <= chronicle_.committed() || contributed(id)) return;
  Accumulator& own = accumulator(id.stage, id.microbatch.step);
  if (own.settled) {
    own.not_added = id;
  } else {
    outbox_.send(view_.leader(), UnableMessage{id});
  }
}

void Server::note_loss(const MicrobatchId& microbatch, double nats) {
  losses_[microbatch] = nats;
  report_.losses.push_back({microbatch, nats});
}

void Server::forget_works(Step committed) {
  const WorkId next{{committed.next(), Purpose::train, 0}, StageId(0)};
  const auto end = works_.lower_bound(next);
  for (auto it = works_.begin(); it != end; ++it) kept_bytes_ -= it->second.kept_bytes;
  works_.erase(works_.begin(), end);
  forwards_.erase(forwards_.begin(), forwards_.lower_bound(next));
  backwards_.erase(backwards_.begin(), backwards_.lower_bound(next));
  losses_.erase(losses_.begin(), losses_.lower_bound(next.microbatch));
}

}  // namespace swarmpi
