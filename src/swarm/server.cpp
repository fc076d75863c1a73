#include "swarm/server.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

std::int64_t size_of(const PayloadRef& payload) {
  return payload ? static_cast<std::int64_t>(payload->size_bytes()) : 0;
}

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
                 [](const auto& j) {
                   return format("reduction of chunk %d of step %lld in stage %d", j.chunk,
                                 static_cast<long long>(j.step.value), j.stage.value);
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

void Server::set_now(double now_s) {
  if (!running_) (reducing() ? communication_s_ : idle_s_) += now_s - now_s_;
  now_s_ = now_s;
}

void Server::adopt(const View& view) {
  view_ = view;
  const auto mine = view.members.find(self_);
  if (mine == view.members.end()) return;
  for (const StageId stage : mine->second) {
    const auto [place, is_new] = served_.try_emplace(stage);
    if (is_new) {
      place->second.applied = place->second.asked_to_store = resumed_from_;
      place->second.blocks = cut_into_blocks(plan_.elements_in(stage));
    }
    const StageId next = stage.next();
    if (next.value == plan_.stages()) continue;
    std::unique_ptr<Router>& router = routers_[next];
    if (!router) router = make_router(plan_.swarm.wiring, plan_.swarm.seed, self_, next);
    router->set_peers(view.replicas(next));
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
  take_on({message.microbatch, StageId(0)}, {nullptr, from, message.sent_s, now_s_});
}

void Server::receive(const ForwardMessage& message, PeerId from) {
  if (from != self_) {
    served(message.work.stage).use.bytes_received += size_of(message.activations);
  }
  take_on(message.work, {message.activations, from, message.sent_s, now_s_});
}

void Server::take_on(const WorkId& work, const Held& held) {
  const bool training = work.microbatch.purpose == Purpose::train;
  if (training && work.microbatch.step <= served(work.stage).applied) return;  // committed already
  if (training && accumulator(work).microbatches.contains(work.microbatch.index)) return;
  if (!held_.try_emplace(work, held).second) return;  // sent twice
  if (training && in_last_stage(work)) {
    backwards_.emplace(work, nullptr);  // forward, loss and backward in one
  } else {
    forwards_.emplace(work, held.input);
  }
}

void Server::receive(const ForwardDone& message, PeerId from) {
  const auto router = routers_.find(message.work.stage);
  if (router != routers_.end()) router->second->measured(from, message.compute_s);
}

void Server::receive(const BackwardMessage& message, PeerId from) {
  const WorkId& work = message.work;
  if (from != self_) served(work.stage).use.bytes_received += size_of(message.gradient);
  const auto held = held_.find(work);
  if (held == held_.end() || held->second.backward_begun) return;  // sent twice, or done
  backwards_.emplace(work, message.gradient);
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
  if (auto job = next_reduction_job()) return job;
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

void Server::start_job() {
  if (running_) return;
  std::optional<Job> job = next_job();
  if (!job) return;
  running_ = Running{describe(*job), stage_of(*job), now_s_};
  Served& state = served(running_->stage);
  state.use.queue += static_cast<double>(forwards_.size() + backwards_.size());
  ++state.queue_samples;
  outbox_.act(StartJob{*std::move(job)});
}

void Server::finished(const JobFinished& job) {
  SWARMPI_CHECK(running_.has_value(), "a job that finishes was started");
  served(running_->stage).use.compute_s += job.duration_s;
  // On a busy machine a job begins late, and is heard of late.
  idle_s_ += std::max(0.0, now_s_ - running_->started_s - job.duration_s);
  std::visit([&](const auto& result) { handle(result, job.duration_s); }, job.result);
  running_.reset();
}

template <class Message>
void Server::send_boundary(PeerId to, StageId from_stage, const PayloadRef& payload,
                           Message message) {
  if (to != self_) served(from_stage).use.bytes_sent += size_of(payload);
  outbox_.send(to, std::move(message));
}

// Only where the sender has a choice.
void Server::report_forward_done(const WorkId& work, const Held& held, double compute_s) {
  if (work.microbatch.purpose != Purpose::train || view_.replicas(work.stage).size() < 2) return;
  outbox_.send(held.from,
               ForwardDone{work, running_->started_s - held.arrived_s, compute_s, held.sent_s});
}

void Server::handle(const ForwardResult& result, double duration_s) {
  const WorkId& work = result.work;
  const auto held = held_.find(work);
  report_forward_done(work, held->second, duration_s);
  if (work.microbatch.purpose == Purpose::validate) held_.erase(held);
  if (in_last_stage(work)) {
    report_.losses.push_back({work.microbatch, result.loss_nats});
    return;
  }
  const WorkId onward{work.microbatch, work.stage.next()};
  send_boundary(routers_.at(onward.stage)->choose(work.microbatch), work.stage, result.output,
                ForwardMessage{onward, result.output, now_s_});
}

void Server::handle(const BackwardResult& result, double duration_s) {
  const WorkId& work = result.work;
  Accumulator& own = accumulator(work);
  SWARMPI_CHECK(!own.frozen, "a frozen accumulator takes nothing more");
  own.microbatches.insert(work.microbatch.index);
  ++served(work.stage).use.microbatches;
  report_.contributions.push_back({work, result.contributions});

  const auto held = held_.find(work);
  if (in_last_stage(work)) {
    report_.losses.push_back({work.microbatch, result.loss_nats});
    report_forward_done(work, held->second, duration_s);
  }
  if (work.stage.value > 0) {
    const WorkId back{work.microbatch, StageId(work.stage.value - 1)};
    send_boundary(held->second.from, work.stage, result.input_gradient,
                  BackwardMessage{back, result.input_gradient});
  }
  held_.erase(held);
}

void Server::flush_report() {
  if (report_.empty()) return;
  outbox_.send(view_.leader(), std::exchange(report_, {}));
}

std::string Server::activity() const {
  if (running_) return running_->what;
  for (const auto& [stage, state] : served_) {
    for (const auto& [seal, reduction] : state.reductions) {
      if (!reduction.complete()) return reduction.waiting_for();
      return format("the commit of step %lld", static_cast<long long>(reduction.step().value));
    }
  }
  return format("work (%zu microbatches here, %zu forward, %zu backward, %zu updates queued)",
                held_.size(), forwards_.size(), backwards_.size(), applications_.size());
}

}  // namespace swarmpi
