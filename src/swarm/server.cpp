#include "swarm/server.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

// Which replica gets the microbatch. With one peer there is no choice.
PeerId choose_replica(const View& view, StageId stage) {
  const std::vector<PeerId> replicas = view.replicas(stage);
  SWARMPI_CHECK(!replicas.empty(), "a view serves every stage");
  return replicas.front();
}

StageId stage_of(const Job& job) {
  return std::visit(Overloaded{[](const ForwardJob& j) { return j.work.stage; },
                               [](const BackwardJob& j) { return j.work.stage; },
                               [](const ReduceJob& j) { return j.stage; },
                               [](const ApplyJob& j) { return j.stage; }},
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
                 [](const ReduceJob& j) {
                   return format("reduction of step %lld in stage %d",
                                 static_cast<long long>(j.step.value), j.stage.value);
                 },
                 [](const ApplyJob& j) {
                   return format("update of step %lld in stage %d",
                                 static_cast<long long>(j.record->step.value), j.stage.value);
                 }},
      job);
}

}  // namespace

Server::Server(PeerId self, const RunPlan& plan, const ResumeState& resume, Outbox& outbox)
    : self_(self),
      plan_(plan),
      outbox_(outbox),
      resumed_from_(resume.step),
      committed_(resume.step) {
  for (std::size_t i = 0; i < resume.exponents.size(); ++i) {
    exponents_[Step(resume.step + 1 + static_cast<std::int64_t>(i))] =
        std::make_shared<const Exponents>(resume.exponents[i]);
  }
  if (resume.step < 0) {
    exponents_[Step(0)] = std::make_shared<const Exponents>(plan.tensors(), kernels::kNoExponent);
  }
}

void Server::adopt(const View& view) {
  view_ = view;
  const auto mine = view.members.find(self_);
  if (mine == view.members.end()) return;
  for (const StageId stage : mine->second) {
    Served fresh;
    fresh.applied = fresh.asked_to_store = resumed_from_;
    served_.try_emplace(stage, std::move(fresh));
  }
}

Server::Served& Server::served(StageId stage) {
  const auto found = served_.find(stage);
  SWARMPI_CHECK(found != served_.end(), format("stage %d is served here", stage.value));
  return found->second;
}

Server::Accumulator& Server::accumulator(const WorkId& work) {
  const Step step = work.microbatch.step;
  return served(work.stage)
      .accumulators.try_emplace(step, Accumulator{Bitmap(plan_.train_microbatches(step)), {}})
      .first->second;
}

// ---- Messages

void Server::receive(const IssueMessage& message, PeerId from) {
  take_on({message.microbatch, StageId(0)}, nullptr, from);
}

void Server::receive(const ForwardMessage& message, PeerId from) {
  take_on(message.work, message.activations, from);
}

void Server::take_on(const WorkId& work, PayloadRef input, PeerId from) {
  const bool training = work.microbatch.purpose == Purpose::train;
  if (training && work.microbatch.step <= served(work.stage).applied) return;  // committed already
  if (training && accumulator(work).microbatches.contains(work.microbatch.index)) return;
  if (!held_.try_emplace(work, Held{input, from}).second) return;  // sent twice
  if (training && in_last_stage(work)) {
    backwards_.emplace(work, nullptr);  // forward, loss and backward in one
  } else {
    forwards_.emplace(work, std::move(input));
  }
}

void Server::receive(const BackwardMessage& message, PeerId) {
  const WorkId& work = message.work;
  const auto held = held_.find(work);
  if (held == held_.end() || held->second.backward_begun) return;  // sent twice, or done
  backwards_.emplace(work, message.gradient);
}

void Server::receive(const SealMessage& message, PeerId from) {
  for (auto& [stage, state] : served_) {
    if (message.step <= state.applied) continue;  // committed long ago
    Accumulator& own = accumulator({{message.step, Purpose::train, 0}, stage});
    if (own.frozen == message.seal) continue;  // sent twice
    Bitmap share(plan_.train_microbatches(message.step));
    for (const SealShare& s : message.shares) {
      if (s.stage == stage && s.peer == self_) share = s.microbatches;
    }
    if (own.microbatches != share) {
      outbox_.send(from, SealAnswer{message.seal, stage, false, own.microbatches});
      continue;
    }
    own.frozen = message.seal;
    outbox_.send(from, SealAnswer{message.seal, stage, true, {}});
    if (message.skipped) {
      outbox_.send(from, ReducedMessage{message.seal, stage, {}});
    } else {
      reductions_.push_back({message.seal, message.step, stage, exponents_.at(message.step),
                             plan_.tokens_per_step()});
    }
  }
}

void Server::receive(const CommitMessage& message, PeerId) {
  const CommitRecord& record = *message.record;
  if (record.step <= committed_) return;  // sent twice
  committed_ = record.step;
  const auto next = std::make_shared<const Exponents>(record.next_exponents);
  exponents_[Step(record.step.value + plan_.delay())] = next;
  // The measuring step sets the exponents of all steps that no step before them can set.
  if (record.step.value == 0) exponents_[Step(1)] = next;
  exponents_.erase(exponents_.begin(), exponents_.upper_bound(record.step));
  for (const auto& [stage, state] : served_) applications_.push_back({stage, message.record});
}

void Server::receive(const CheckpointMessage& message, PeerId) {
  Served& state = served(message.stage);
  if (state.asked_to_store >= message.step) return;  // sent twice
  SWARMPI_CHECK(state.applied == message.step, "a checkpoint is asked for before the next commit");
  state.asked_to_store = message.step;
  state.storing = true;
  outbox_.act(StoreStage{message.step, message.stage});
}

void Server::stored(const StageStored& part) {
  served(part.stage).storing = false;
  outbox_.send(view_.leader(), StageStoredMessage{part.step, part.stage, part.file});
}

// ---- Jobs

bool Server::weights_ready(const WorkId& work) const {
  return served_.at(work.stage).applied.value >= plan_.starts_after(work.microbatch.step);
}

std::optional<Job> Server::next_job() {
  const auto ready = std::find_if(applications_.begin(), applications_.end(),
                                  [&](const auto& a) { return !served_.at(a.stage).storing; });
  if (ready != applications_.end()) {
    Job job = *ready;
    applications_.erase(ready);
    return job;
  }
  // A stage has one reduced gradient: with delayed updates the next step's waits until this one's
  // is applied.
  const auto due = std::find_if(reductions_.begin(), reductions_.end(), [&](const ReduceJob& r) {
    return served_.at(r.stage).applied.next() == r.step;
  });
  if (due != reductions_.end()) {
    Job job = std::move(*due);
    reductions_.erase(due);
    return job;
  }
  return next_microbatch_job();
}

// Backward first: it frees memory and feeds the stages upstream. Maps are ordered by step, then
// index.
std::optional<Job> Server::next_microbatch_job() {
  for (auto it = backwards_.begin(); it != backwards_.end(); ++it) {
    if (!weights_ready(it->first)) continue;
    Held& held = held_.at(it->first);
    held.backward_begun = true;
    Job job =
        BackwardJob{it->first, held.input, it->second, exponents_.at(it->first.microbatch.step)};
    backwards_.erase(it);
    return job;
  }
  for (auto it = forwards_.begin(); it != forwards_.end(); ++it) {
    if (!weights_ready(it->first)) continue;
    Job job = ForwardJob{it->first, it->second};
    forwards_.erase(it);
    return job;
  }
  return std::nullopt;
}

void Server::start_job(double now_s) {
  if (running_) return;
  std::optional<Job> job = next_job();
  if (!job) return;
  running_ = describe(*job);
  running_stage_ = stage_of(*job);
  idle_s_ += now_s - idle_since_s_;
  Served& state = served(running_stage_);
  state.use.queue += static_cast<double>(forwards_.size() + backwards_.size());
  ++state.queue_samples;
  outbox_.act(StartJob{*std::move(job)});
}

void Server::finished(const JobFinished& job, double now_s) {
  SWARMPI_CHECK(running_.has_value(), "a job that finishes was started");
  running_.reset();
  idle_since_s_ = now_s;
  served(running_stage_).use.compute_s += job.duration_s;
  std::visit(Overloaded{[&](const ForwardResult& r) { handle(r); },
                        [&](const BackwardResult& r) { handle(r); },
                        [&](const ReduceResult& r) { handle(r); },
                        [&](const ApplyResult& r) { handle(r); }},
             job.result);
}

void Server::handle(const ForwardResult& result) {
  const WorkId& work = result.work;
  const bool training = work.microbatch.purpose == Purpose::train;
  if (!training) held_.erase(work);
  if (in_last_stage(work)) {
    report_.losses.push_back({work.microbatch, result.loss_nats});
    return;
  }
  const WorkId onward{work.microbatch, work.stage.next()};
  outbox_.send(choose_replica(view_, onward.stage), ForwardMessage{onward, result.output});
}

void Server::handle(const BackwardResult& result) {
  const WorkId& work = result.work;
  Accumulator& own = accumulator(work);
  SWARMPI_CHECK(!own.frozen, "a frozen accumulator takes nothing more");
  own.microbatches.insert(work.microbatch.index);
  report_.contributions.push_back({work, result.contributions});
  if (in_last_stage(work)) report_.losses.push_back({work.microbatch, result.loss_nats});

  const auto held = held_.find(work);
  if (work.stage.value > 0) {
    const WorkId back{work.microbatch, StageId(work.stage.value - 1)};
    outbox_.send(held->second.from, BackwardMessage{back, result.input_gradient});
  }
  held_.erase(held);
}

void Server::handle(const ReduceResult& result) {
  outbox_.send(view_.leader(), ReducedMessage{result.seal, result.stage, result.squares});
}

void Server::handle(const ApplyResult& result) {
  Served& state = served(result.stage);
  state.applied = result.step;
  state.accumulators.erase(state.accumulators.begin(), state.accumulators.upper_bound(result.step));
  report_.hashes.push_back({result.step, result.stage, result.state_hash});

  PeerRow use = std::exchange(state.use, {});
  use.step = result.step.value;
  use.peer = self_.value;
  use.stage = result.stage.value;
  use.idle_s = std::exchange(idle_s_, 0.0);
  if (const auto samples = std::exchange(state.queue_samples, 0); samples > 0) {
    use.queue /= static_cast<double>(samples);
  }
  report_.uses.push_back({use});
}

void Server::flush_report() {
  if (report_.empty()) return;
  outbox_.send(view_.leader(), std::exchange(report_, {}));
}

std::string Server::activity() const {
  if (running_) return *running_;
  return format("work (%zu forward, %zu backward, %zu reductions, %zu updates queued)",
                forwards_.size(), backwards_.size(), reductions_.size(), applications_.size());
}

}  // namespace swarmpi
