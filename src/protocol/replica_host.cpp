#include "protocol/replica_host.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {

ReplicaHost::ReplicaHost(PeerId self, const RunPlan& plan, const ResumeState& resume,
                         Outbox& outbox)
    : self_(self),
      plan_(plan),
      outbox_(outbox),
      resumed_from_(resume.step),
      commit_log_(plan, resume) {}

void ReplicaHost::set_now(double now_s) {
  if (!running_) (reducing() ? communication_s_ : idle_s_) += now_s - now_s_;
  now_s_ = now_s;
}

// ---- Views
// Which stages this peer serves and learns, and what it has of them.

void ReplicaHost::adopt(const View& view) {
  view_ = view;
  const auto stages_in = [&](const std::map<PeerId, std::set<StageId>>& roles) {
    const auto mine = roles.find(self_);
    return mine == roles.end() ? std::set<StageId>() : mine->second;
  };
  const std::set<StageId> serves = stages_in(view.members);
  const std::set<StageId> learns = stages_in(view.learners);
  std::set<StageId> all = serves;
  all.insert(learns.begin(), learns.end());
  drop_all_but(all);
  for (const StageId stage : serves) serve(stage);
  for (const StageId stage : learns) learn(stage);
}

void ReplicaHost::serve(StageId stage) {
  const auto [entry, is_new] = replicas_.try_emplace(stage);
  StageReplica& replica = entry->second;
  if (is_new) {
    replica.applied = resumed_from_;
    replica.blocks = cut_into_blocks(plan_.elements_in(stage));
    if (restart_files_) to_load_.insert(stage);
    replica.loading = restart_files_.has_value();
  }
  if (const auto learned = std::exchange(replica.learning, std::nullopt)) {
    hashes_.push_back({replica.applied, stage, learned->hashes});
  }
  const StageId next = stage.next();
  if (next.value == plan_.stages()) return;
  std::unique_ptr<Router>& router = routers_[next];
  if (!router) router = make_router(plan_.swarm.wiring, plan_.swarm.seed, self_, next);
  router->set_peers(view_.choices(next));
}

ReplicaHost::StageReplica& ReplicaHost::replica_of(StageId stage) {
  const auto found = replicas_.find(stage);
  SWARMPI_CHECK(found != replicas_.end(), format("stage %d is served here", stage.value));
  return found->second;
}

ReplicaHost::Accumulator& ReplicaHost::accumulator(StageId stage, Step step) {
  const auto [entry, is_new] = replica_of(stage).accumulators.try_emplace(step);
  if (is_new) {
    entry->second.microbatches = Bitmap(plan_.train_microbatches(step));
    entry->second.tensors.resize(plan_.stage_tensors.at(stage.value).size());
  }
  return entry->second;
}

bool ReplicaHost::contributed(const WorkId& work) const {
  if (work.microbatch.purpose != Purpose::train) return false;
  const auto& accumulators = replicas_.at(work.stage).accumulators;
  const auto own = accumulators.find(work.microbatch.step);
  return own != accumulators.end() && own->second.microbatches.contains(work.microbatch.index);
}

// ---- Microbatches
// The table of what this peer has of each microbatch: from the message that brings it, over its
// passes, to the commit of its step.

void ReplicaHost::receive(const IssueMessage& message, PeerId from) {
  if (!serves_or_learns(StageId(0))) return;
  take_on({message.microbatch, StageId(0)}, {nullptr, from, message.sent_s, now_s_, message.path});
}

void ReplicaHost::receive(const ForwardMessage& message, PeerId from) {
  if (!serves_or_learns(message.work.stage)) return;
  // A peer that has left its stage had no such microbatch in its table, so the leader has asked
  // another for it.
  const StageId before(message.work.stage.value - 1);
  if (!view_.serves(from, before)) return;
  if (from != self_) {
    replica_of(message.work.stage).use.bytes_received += size_of(message.activations);
  }
  take_on(message.work, {message.activations, from, message.sent_s, now_s_, message.path});
}

// Without a path, a microbatch that is known already was sent twice. With one, it is on its way
// again because of a death: peers that have done their part pass it on.
void ReplicaHost::take_on(const WorkId& id, Arrival arrival) {
  if (id.microbatch.step <= commit_log_.committed()) return;
  const auto known = works_.find(id);
  if (known != works_.end() || contributed(id)) {
    if (!arrival.path) return;
    const bool sent_twice = known != works_.end() && known->second.active() &&
                            known->second.arrival.path &&
                            known->second.arrival.from == arrival.from &&
                            arrival.path->planned_in == known->second.arrival.path->planned_in;
    if (sent_twice) return;
  }
  Work& work = works_[id];
  // A microbatch that an earlier plan has sent may come later: the newer path counts.
  const PathRef path = work.arrival.path;
  const bool newer = !path || !arrival.path || path->planned_in < arrival.path->planned_in;
  work.arrival = std::move(arrival);
  if (!newer) work.arrival.path = path;
  // Its own part may be done, though the output is to be sent again.
  const bool gives_gradient = work.awaits_gradient || work.backward_due;
  if (!gives_gradient && id.microbatch.purpose == Purpose::train) {
    if (contributed(id) && work.input_gradient) {
      send_back(id, work);
    } else if (in_last_stage(id)) {
      await_backward(id, work, nullptr);  // forward, loss and backward in one
    } else {
      work.awaits_gradient = true;
    }
  }
  pass_on(id, work);
}

void ReplicaHost::pass_on(const WorkId& id, Work& work) {
  const bool training = id.microbatch.purpose == Purpose::train;
  if (training && in_last_stage(id)) return;
  const PathRef& path = work.arrival.path;
  if (training && path && path->last == id.stage) {
    const auto holder = path->holders.find(id.stage.next());
    if (!work.awaits_gradient || path_broken(id, work)) return;
    work.sent_to = holder->second;
    outbox_.send(holder->second, RedirectMessage{{id.microbatch, id.stage.next()}});
  } else if (work.output) {
    if (!path_broken(id, work)) send_output(id, work, work.output);
  } else if (!work.forward_due) {
    work.forward_due = true;
    forwards_due_.insert(id);
  }
}

// Without a path it goes where it was sent before, if that peer still serves the stage: two peers
// must not both have it.
void ReplicaHost::send_output(const WorkId& id, Work& work, const PayloadRef& output) {
  const WorkId onward{id.microbatch, id.stage.next()};
  const PathRef& path = work.arrival.path;
  const auto holder = path ? path->holders.find(onward.stage) : decltype(path->holders.end()){};
  PeerId to;
  if (path && holder != path->holders.end()) {
    to = holder->second;
  } else if (work.sent_to && view_.serves(*work.sent_to, onward.stage)) {
    to = *work.sent_to;
  } else {
    to = routers_.at(onward.stage)->choose(id.microbatch);
  }
  work.sent_to = to;
  send_boundary(to, id.stage, output, ForwardMessage{onward, output, now_s_, path});
}

void ReplicaHost::receive(const ForwardDone& message, PeerId from) {
  const auto router = routers_.find(message.work.stage);
  if (router != routers_.end()) router->second->measured(from, message.compute_s);
}

void ReplicaHost::receive(const BackwardMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (!serves_or_learns(id.stage)) return;
  if (from != self_) replica_of(id.stage).use.bytes_received += size_of(message.gradient);
  const auto known = works_.find(id);
  if (known == works_.end()) return;
  if (!known->second.awaits_gradient) return;  // sent twice, or done
  await_backward(id, known->second, message.gradient);
}

void ReplicaHost::await_backward(const WorkId& id, Work& work, const PayloadRef& output_gradient) {
  work.awaits_gradient = false;
  work.backward_due = true;
  backwards_due_.emplace(id, output_gradient);
}

// A gradient whose receiver has died is not sent: it is kept, whatever memory it takes, because the
// peer that takes over from the dead will ask for it.
void ReplicaHost::send_back(const WorkId& id, Work& work) {
  if (id.stage.value == 0 || undeliverable(id, work)) return;
  const WorkId back{id.microbatch, StageId(id.stage.value - 1)};
  send_boundary(work.arrival.from, id.stage, work.input_gradient,
                BackwardMessage{back, work.input_gradient});
}

template <class Message>
void ReplicaHost::send_boundary(PeerId to, StageId from_stage, const PayloadRef& payload,
                                Message message) {
  if (to != self_) replica_of(from_stage).use.bytes_sent += size_of(payload);
  outbox_.send(to, std::move(message));
}

void ReplicaHost::receive(const ResendMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (id.microbatch.step <= commit_log_.committed()) return;
  const auto known = works_.find(id);
  if (known == works_.end() || (!known->second.active() && !known->second.output)) {
    return outbox_.send(from, UnableMessage{id});
  }
  Work& work = known->second;
  work.arrival.path = message.path;
  pass_on(id, work);
}

void ReplicaHost::receive(const RedirectMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (id.microbatch.step <= commit_log_.committed()) return;
  const auto known = works_.find(id);
  const bool coming =
      known != works_.end() && (known->second.awaits_gradient || known->second.backward_due);
  if (!coming && (known == works_.end() || !known->second.input_gradient)) {
    return outbox_.send(view_.leader(), UnableMessage{id});
  }
  known->second.arrival.from = from;
  if (!coming) send_back(id, known->second);
}

bool ReplicaHost::path_broken(const WorkId& id, const Work& work) const {
  if (in_last_stage(id)) return false;
  if (const PathRef& path = work.arrival.path) {
    const auto ahead = path->holders.upper_bound(id.stage);
    const auto gone = [this](const auto& holder) {
      return !view_.serves(holder.second, holder.first);
    };
    if (std::any_of(ahead, path->holders.end(), gone)) return true;
    if (ahead != path->holders.end() && ahead->first == id.stage.next()) return false;
  }
  return view_.replicas(id.stage.next()).empty();
}

bool ReplicaHost::undeliverable(const WorkId& id, const Work& work) const {
  return id.stage.value > 0 && !view_.serves(work.arrival.from, StageId(id.stage.value - 1));
}

bool ReplicaHost::keep(Work& work, const PayloadRef& payload) {
  const std::int64_t bytes = size_of(payload);
  if (!payload || kept_bytes_ + bytes > plan_.kept_bytes) return false;
  kept_bytes_ += bytes;
  work.kept_bytes += bytes;
  return true;
}

void ReplicaHost::drop_if_done(std::map<WorkId, Work>::iterator entry) {
  Work& work = entry->second;
  if (work.active()) return;
  work.arrival.input.reset();
  // Of a repaired microbatch the receiver is remembered, because it may be sent again.
  const bool training = entry->first.microbatch.purpose == Purpose::train;
  const bool repaired = work.arrival.path != nullptr;
  if (training && !repaired && !work.output && !work.input_gradient) works_.erase(entry);
}

void ReplicaHost::forget_works(Step committed) {
  const WorkId next{{committed.next(), Purpose::train, 0}, StageId(0)};
  const auto end = works_.lower_bound(next);
  for (auto it = works_.begin(); it != end; ++it) kept_bytes_ -= it->second.kept_bytes;
  works_.erase(works_.begin(), end);
  forwards_due_.erase(forwards_due_.begin(), forwards_due_.lower_bound(next));
  backwards_due_.erase(backwards_due_.begin(), backwards_due_.lower_bound(next));
  losses_.erase(losses_.begin(), losses_.lower_bound(next.microbatch));
}

Phase ReplicaHost::Work::phase() const {
  if (backward_due) return Phase::to_backward;
  if (forward_due) return Phase::to_forward;
  return awaits_gradient ? Phase::passed_on : Phase::over;
}

// ---- Jobs
// One at a time. Which comes next: what completes a step first, then backward, then forward.

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
                 [](const PrepareJob& j) { return format("allocating stage %d", j.stage.value); },
                 [](const DropJob& j) { return format("freeing stage %d", j.stage.value); },
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

void ReplicaHost::start_job() {
  if (running_) return;
  start_loading();
  // Jobs and loading both allocate, fill and free stages: never at the same time.
  if (loads_running_ > 0) return;
  std::optional<Job> job = next_job();
  if (!job) return;
  running_ = Running{describe(*job), stage_of(*job), now_s_};
  if (const auto replica = replicas_.find(running_->stage); replica != replicas_.end()) {
    replica->second.use.queue += static_cast<double>(forwards_due_.size() + backwards_due_.size());
    ++replica->second.queue_samples;
  }
  outbox_.act(StartJob{*std::move(job)});
}

std::optional<Job> ReplicaHost::next_job() {
  for (auto drop = drops_due_.begin(); drop != drops_due_.end(); ++drop) {
    if (being_written_.contains(drop->stage)) continue;
    const DropJob job = *drop;
    drops_due_.erase(drop);
    return job;
  }
  if (auto job = next_learning_job()) return job;
  if (auto job = next_update_job()) return job;
  if (auto job = next_reduction_job()) return job;
  return next_microbatch_job();
}

// Backward first: it frees memory, and the stages before wait for it. Both containers are ordered
// by step first.
std::optional<Job> ReplicaHost::next_microbatch_job() {
  for (auto it = backwards_due_.begin(); it != backwards_due_.end(); ++it) {
    const WorkId& id = it->first;
    if (!may_run_backward(id)) continue;
    const Step step = id.microbatch.step;
    const Accumulator& own = accumulator(id.stage, step);
    const bool add = !own.settled && !own.microbatches.contains(id.microbatch.index);
    Job job =
        BackwardJob{id, works_.at(id).arrival.input, it->second, commit_log_.exponents(step), add};
    backwards_due_.erase(it);
    return job;
  }
  for (auto it = forwards_due_.begin(); it != forwards_due_.end(); ++it) {
    if (!weights_ready(*it)) continue;
    const Work& work = works_.at(*it);
    if (path_broken(*it, work)) continue;
    Job job = ForwardJob{*it, work.arrival.input};
    forwards_due_.erase(it);
    return job;
  }
  return std::nullopt;
}

bool ReplicaHost::weights_ready(const WorkId& work) const {
  const StageReplica& replica = replicas_.at(work.stage);
  return !replica.loading && replica.applied.value >= plan_.starts_after(work.microbatch.step);
}

// A frozen accumulator takes nothing more: a microbatch that it lacks waits until the stage is
// reopened.
bool ReplicaHost::may_run_backward(const WorkId& id) {
  if (!weights_ready(id)) return false;
  const Accumulator& own = accumulator(id.stage, id.microbatch.step);
  return !own.frozen || own.settled || own.microbatches.contains(id.microbatch.index);
}

void ReplicaHost::finished(const JobFinished& job) {
  SWARMPI_CHECK(running_.has_value(), "a job that finishes was started");
  // On a busy machine a job begins late, and its result is heard of late: that is idle time.
  idle_s_ += std::max(0.0, now_s_ - running_->started_s - job.duration_s);
  const auto replica = replicas_.find(running_->stage);
  if (replica != replicas_.end() && !running_->result_is_void) {
    replica->second.use.compute_s += job.duration_s;
    std::visit([&](const auto& result) { handle(result, job.duration_s); }, job.result);
  }
  running_.reset();
}

// ---- Results of passes

void ReplicaHost::handle(const ForwardResult& result, double duration_s) {
  const WorkId& id = result.work;
  const auto found = works_.find(id);
  if (found == works_.end()) return;  // committed meanwhile: a repair has had it done once more
  Work& work = found->second;
  work.forward_due = false;
  report_forward_done(id, work, duration_s);
  if (in_last_stage(id)) {
    note_loss(id.microbatch, result.loss_nats);
  } else if (path_broken(id, work)) {
    work.output = result.output;  // waits for another path
  } else {
    send_output(id, work, result.output);
    if (!work.output && keep(work, result.output)) work.output = result.output;
  }
  drop_if_done(found);
}

void ReplicaHost::handle(const BackwardResult& result, double duration_s) {
  const WorkId& id = result.work;
  const bool added = !result.contributions.empty();
  if (added) note_contribution(result);
  PeerRow& use = replica_of(id.stage).use;
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
  if (!undeliverable(id, work) && !keep(work, work.input_gradient)) work.input_gradient.reset();
  drop_if_done(found);
}

// Only where the sender can choose between replicas.
void ReplicaHost::report_forward_done(const WorkId& id, const Work& work, double compute_s) {
  if (id.microbatch.purpose != Purpose::train || view_.replicas(id.stage).size() < 2) return;
  if (!alive(work.arrival.from)) return;
  const Arrival& came = work.arrival;
  outbox_.send(came.from,
               ForwardDone{id, running_->started_s - came.arrived_s, compute_s, came.sent_s});
}

void ReplicaHost::note_contribution(const BackwardResult& result) {
  const WorkId& id = result.work;
  Accumulator& own = accumulator(id.stage, id.microbatch.step);
  SWARMPI_CHECK(!own.frozen || own.settled, "a frozen accumulator takes nothing more");
  own.microbatches.insert(id.microbatch.index);
  for (std::size_t i = 0; i < own.tensors.size(); ++i)
    own.tensors[i].merge(result.contributions[i]);
  report_.contributions.push_back({id, result.contributions});
}

// The sums lack this microbatch. If they are settled that matters only if the stage is reopened.
void ReplicaHost::note_not_added(const WorkId& id) {
  if (id.microbatch.step <= commit_log_.committed() || contributed(id)) return;
  Accumulator& own = accumulator(id.stage, id.microbatch.step);
  if (own.settled) {
    own.not_added = id;
  } else {
    outbox_.send(view_.leader(), UnableMessage{id});
  }
}

void ReplicaHost::note_loss(const MicrobatchId& microbatch, double nats) {
  losses_[microbatch] = nats;
  report_.losses.push_back({microbatch, nats});
}

// ---- Seal

void ReplicaHost::receive(const SealMessage& message, PeerId from) {
  if (message.step <= commit_log_.committed()) return;
  sealed_facts_[message.step] = message.facts;
  const auto named = [this](const std::vector<PeerId>& peers) {
    return std::find(peers.begin(), peers.end(), self_) != peers.end();
  };
  for (const StageSeal& seal : message.stages) {
    const bool learns = named(seal.learners);
    if (!serves_or_learns(seal.stage) || (!learns && !named(seal.replicas))) continue;
    StageReplica& replica = replica_of(seal.stage);
    if (replica.newest_seal && seal.seal <= *replica.newest_seal) continue;  // sent twice, or void
    const Accumulator& own = accumulator(seal.stage, message.step);
    Bitmap share(plan_.train_microbatches(message.step));
    for (const SealShare& s : seal.shares) {
      if (s.peer == self_) share = s.microbatches;
    }
    // Where nothing is summed any more, it does not matter what is in the sums.
    const bool summed = !learns && !message.skipped &&
                        seal.finished_chunks.size() < chunks_of(replica, seal).size();
    if (summed && own.microbatches != share) {
      outbox_.send(from, SealRefused{seal.seal, message.step, seal.stage, own.microbatches});
      continue;
    }
    freeze(message, seal, replica);
  }
}

std::vector<BlockRange> ReplicaHost::chunks_of(const StageReplica& replica,
                                               const StageSeal& seal) const {
  return cut_into_chunks(replica.blocks, seal.chunk_replicas,
                         plan_.torture_only.reduction_chunk_elements);
}

void ReplicaHost::freeze(const SealMessage& message, const StageSeal& seal, StageReplica& replica) {
  Accumulator& own = accumulator(seal.stage, message.step);
  own.frozen = replica.newest_seal = seal.seal;
  if (message.skipped) return acknowledge({message.step, seal.stage, {}});
  begin_reduction(message.step, seal, replica);
  const std::size_t chunks = replica.reductions.at(message.step).chunks();
  if (seal.finished_chunks.size() == chunks) own.settled = true;
}

void ReplicaHost::receive(const ReopenMessage& message, PeerId) {
  if (message.step <= commit_log_.committed() || !serves_or_learns(message.stage)) return;
  StageReplica& replica = replica_of(message.stage);
  Accumulator& own = accumulator(message.stage, message.step);
  own.frozen.reset();
  own.settled = false;
  if (own.not_added) outbox_.send(view_.leader(), UnableMessage{*own.not_added});
  own.not_added.reset();
  const auto reduction = replica.reductions.find(message.step);
  if (reduction != replica.reductions.end()) reduction->second.close();
}

// ---- Reduction

void ReplicaHost::begin_reduction(Step step, const StageSeal& seal, StageReplica& replica) {
  ReductionPlan plan;
  plan.seal = seal.seal;
  plan.step = step;
  plan.stage = seal.stage;
  plan.self = self_;
  plan.replicas = seal.replicas;
  plan.learners = seal.learners;
  plan.chunk_replicas = seal.chunk_replicas;
  plan.finished_chunks = seal.finished_chunks;
  const auto replicas = static_cast<std::int64_t>(plan.replicas.size());
  plan.chunks = chunks_of(replica, seal);
  plan.pattern = plan_.torture_only.reduction_pattern.value_or(
      reduction_pattern(replicas, static_cast<std::int64_t>(plan.chunks.size())));
  plan.exponents = commit_log_.exponents(step);
  plan.tokens = plan_.tokens_per_step();
  const auto before = replica.reductions.find(step);
  Reduction next(std::move(plan), before == replica.reductions.end() ? nullptr : &before->second);
  Reduction& reduction = replica.reductions.insert_or_assign(step, std::move(next)).first->second;
  const auto messages = std::move(replica.awaiting_seal[seal.seal]);
  replica.awaiting_seal.erase(replica.awaiting_seal.begin(),
                              replica.awaiting_seal.upper_bound(seal.seal));
  for (const auto& [peer, message] : messages) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { receive(m, from); }, message);
  }
  acknowledge_if_complete(seal.stage, reduction);
}

Reduction* ReplicaHost::find_reduction(StageId stage, const SealId& seal) {
  for (auto& [step, reduction] : replica_of(stage).reductions) {
    if (reduction.seal() == seal && !reduction.closed()) return &reduction;
  }
  return nullptr;
}

void ReplicaHost::receive(const ShareMessage& message, PeerId from) {
  if (!serves_or_learns(message.stage)) return;
  Reduction* reduction = find_reduction(message.stage, message.seal);
  if (reduction == nullptr) return await_seal(message, from);
  reduction->receive(message, from);
}

void ReplicaHost::receive(const ChunkMessage& message, PeerId from) {
  if (!serves_or_learns(message.stage)) return;
  Reduction* reduction = find_reduction(message.stage, message.seal);
  if (reduction == nullptr) return await_seal(message, from);
  reduction->receive(message, outbox_);
}

template <class Message>
void ReplicaHost::await_seal(const Message& message, PeerId from) {
  StageReplica& replica = replica_of(message.stage);
  if (replica.newest_seal && message.seal <= *replica.newest_seal) return;  // that seal is void
  replica.awaiting_seal[message.seal].emplace_back(from, message);
}

// A stage has memory for one reduced gradient: with delayed updates the reduction of the next step
// waits until this step is applied.
std::optional<Job> ReplicaHost::next_reduction_job() {
  for (auto& [stage, replica] : replicas_) {
    const auto found = replica.reductions.find(replica.applied.next());
    if (found == replica.reductions.end() || found->second.closed()) continue;
    if (replica.loading) continue;
    if (replica.learning && replica.learning->memory != Learning::Memory::ready) continue;
    if (auto job = found->second.next_job()) return job;
  }
  return std::nullopt;
}

void ReplicaHost::handle(const ShareResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result, outbox_);
  }
}

void ReplicaHost::handle(const ReduceResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result, outbox_);
    acknowledge_if_complete(result.stage, *reduction);
  }
}

void ReplicaHost::handle(const PlaceResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result);
    acknowledge_if_complete(result.stage, *reduction);
  }
}

void ReplicaHost::handle(const GatherResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result, outbox_);
  }
}

void ReplicaHost::acknowledge_if_complete(StageId stage, const Reduction& reduction) {
  if (!reduction.complete()) return;
  StageReplica& replica = replica_of(stage);
  replica.use.bytes_sent += reduction.bytes_sent();
  replica.use.bytes_received += reduction.bytes_received();
  const std::size_t tensors = plan_.stage_tensors.at(static_cast<std::size_t>(stage.value)).size();
  acknowledge(
      {reduction.step(), stage, sum_by_tensor(replica.blocks, reduction.squares(), tensors)});
}

void ReplicaHost::acknowledge(ReducedMessage message) {
  accumulator(message.stage, message.step).settled = true;
  replica_of(message.stage).reduced[message.step] = message;
  outbox_.send(view_.leader(), std::move(message));
}

bool ReplicaHost::reducing() const {
  for (const auto& [stage, replica] : replicas_) {
    for (const auto& [step, reduction] : replica.reductions) {
      if (!reduction.closed() && !reduction.complete()) return true;
    }
  }
  return false;
}

// ---- Commit and update

void ReplicaHost::receive(const CommitMessage& message, PeerId) {
  commit_log_.written(message.written, message.checkpointed);
  if (message.record->step <= commit_log_.committed()) return;  // sent twice
  const bool follows = message.record->step == commit_log_.committed().next();
  commit_log_.add(message.record);
  // Those after the last commit are kept: a new leader agrees on them once more.
  const Step before(commit_log_.committed().value - 1);
  std::erase_if(hashes_, [&](const HashFact& hash) {
    return hash.step <= std::min(commit_log_.rows_written(), before);
  });
  sealed_facts_.erase(sealed_facts_.begin(), sealed_facts_.upper_bound(message.record->step));
  forget_works(message.record->step);
  if (!follows) return learn_from_last_commit();
  for (const auto& [stage, replica] : replicas_)
    updates_due_.push_back({stage, message.record, {}});
}

std::optional<Job> ReplicaHost::next_update_job() {
  for (auto it = updates_due_.begin(); it != updates_due_.end(); ++it) {
    const StageReplica& replica = replicas_.at(it->stage);
    if (being_written_.contains(it->stage) || replica.loading) continue;
    ApplyJob job = *it;
    if (replica.learning) {
      if (replica.learning->memory != Learning::Memory::ready) continue;
      // Without the step's gradient the tensors that are here would fall behind: they count as not
      // here any more.
      const auto reduction = replica.reductions.find(job.record->step);
      const bool follows = job.record->skipped ||
                           (reduction != replica.reductions.end() && reduction->second.complete());
      job.tensors = replica.learning->here;
      if (!follows) job.tensors.assign(job.tensors.size(), false);
      tensors_updated_ = job.tensors;
    }
    updates_due_.erase(it);
    return job;
  }
  return std::nullopt;
}

void ReplicaHost::handle(const ApplyResult& result, double) {
  StageReplica& replica = replica_of(result.stage);
  replica.applied = result.step;
  if (replica.learning) {
    for (std::size_t i = 0; i < result.tensor_hashes.size(); ++i) {
      replica.learning->hashes[i] = result.tensor_hashes[i];
    }
    replica.learning->here = std::exchange(tensors_updated_, {});
    std::erase_if(replica.learning->to_write,
                  [&](const auto& entry) { return entry.second.step < replica.applied; });
  }
  replica.stored.reset();
  forget_steps(result.step, replica);
  if (replica.learning) {
    fetch(result.stage, replica);
    return tell_learned(result.stage, replica);
  }
  report_.hashes.push_back({result.step, result.stage, result.tensor_hashes});
  hashes_.push_back(report_.hashes.back());

  PeerRow use = std::exchange(replica.use, {});
  use.step = result.step.value;
  use.peer = self_.value;
  use.stage = result.stage.value;
  // The waiting of a peer with several stages is booked to the first that reports.
  use.idle_s = std::exchange(idle_s_, 0.0);
  use.communication_s = std::exchange(communication_s_, 0.0);
  if (const auto samples = std::exchange(replica.queue_samples, 0); samples > 0) {
    use.queue /= static_cast<double>(samples);
  }
  report_.uses.push_back({use});
}

void ReplicaHost::forget_steps(Step applied, StageReplica& replica) {
  replica.accumulators.erase(replica.accumulators.begin(),
                             replica.accumulators.upper_bound(applied));
  replica.reductions.erase(replica.reductions.begin(), replica.reductions.upper_bound(applied));
  replica.reduced.erase(replica.reduced.begin(), replica.reduced.upper_bound(applied));
}

// ---- Checkpoint

// A new leader may ask for a part that is being written already, or was.
void ReplicaHost::receive(const CheckpointMessage& message, PeerId from) {
  if (!serves_or_learns(message.stage)) return;
  StageReplica& replica = replica_of(message.stage);
  if (being_written_.contains(message.stage)) return;
  if (replica.stored && replica.stored->step == message.step) return stored(*replica.stored);
  if (commit_log_.committed() != message.step || replica.applied != message.step) {
    // Asked in a dead peer's place, but its own state has moved on.
    outbox_.send(from, StageStoredMessage{message.step, message.stage, false, {}, {}});
    return;
  }
  being_written_.insert(message.stage);
  outbox_.act(StoreStage{message.step, message.stage, view_.number.term});
}

void ReplicaHost::stored(const StageStored& part) {
  being_written_.erase(part.stage);
  const auto replica = replicas_.find(part.stage);
  if (replica == replicas_.end() || replica->second.applied != part.step) return;
  replica->second.stored = part;
  outbox_.send(view_.leader(),
               StageStoredMessage{part.step, part.stage, true, part.file, part.tensor_hashes});
}

// ---- Learning
// How a peer comes by a stage that it did not serve at the start: it copies the state tensor by
// tensor from the replicas, while training goes on.

namespace {

// Tensors that a learner asks for at a time.
constexpr std::size_t kFetchesAtOnce = 4;

}  // namespace

void ReplicaHost::learn(StageId stage) {
  const auto [entry, is_new] = replicas_.try_emplace(stage);
  StageReplica& replica = entry->second;
  if (is_new) {
    replica.blocks = cut_into_blocks(plan_.elements_in(stage));
    begin_to_learn(stage, replica);
  }
  SWARMPI_CHECK(replica.learning, "a stage is learned or served, not both");
  std::erase_if(replica.learning->asked,
                [&](const auto& asked) { return !view_.serves(asked.second, stage); });
  fetch(stage, replica);
}

void ReplicaHost::begin_to_learn(StageId stage, StageReplica& replica) {
  replica.applied = commit_log_.committed();
  Learning& learning = replica.learning.emplace();
  learning.here.resize(plan_.stage_tensors.at(stage.value).size());
  learning.hashes.resize(learning.here.size());
}

// The leader knows no commit between the last that this learner has heard of and this one, so it
// cannot tell it what to apply.
void ReplicaHost::learn_from_last_commit() {
  if (running_) running_->result_is_void = true;
  updates_due_.clear();
  const Step committed = commit_log_.committed();
  for (auto& [stage, replica] : replicas_) {
    SWARMPI_CHECK(replica.learning, "a replica hears of every commit");
    forget_steps(committed, replica);
    begin_to_learn(stage, replica);
  }
}

// Each learner begins with another replica, and asks them in turn.
void ReplicaHost::fetch(StageId stage, StageReplica& replica) {
  Learning& learning = *replica.learning;
  const std::vector<PeerId> donors = view_.replicas(stage);
  if (donors.empty() || learning.memory != Learning::Memory::ready) return;
  for (std::size_t t = 0; t < learning.here.size(); ++t) {
    const auto tensor = static_cast<std::int32_t>(t);
    if (learning.asked.size() >= kFetchesAtOnce) return;
    if (learning.here[t] || learning.asked.contains(tensor) || learning.to_write.contains(tensor)) {
      continue;
    }
    const auto turn = static_cast<std::size_t>(self_.value) + t;
    const PeerId donor = donors[turn % donors.size()];
    learning.asked[tensor] = donor;
    outbox_.send(donor, FetchMessage{stage, tensor, replica.applied});
  }
}

void ReplicaHost::receive(const FetchMessage& message, PeerId from) {
  if (replicas_.contains(message.stage)) fetches_due_.emplace_back(from, message);
}

void ReplicaHost::receive(const TensorMessage& message, PeerId) {
  const auto found = replicas_.find(message.stage);
  if (found == replicas_.end() || !found->second.learning) return;
  StageReplica& replica = found->second;
  replica.learning->asked.erase(message.tensor);
  // One that is older than the updates applied here is of no use.
  if (message.step >= replica.applied) replica.learning->to_write[message.tensor] = message;
  fetch(message.stage, replica);
}

// A tensor that has come is written before the next update, so that it takes part in it.
std::optional<Job> ReplicaHost::next_learning_job() {
  for (auto& [stage, replica] : replicas_) {
    if (!replica.learning) continue;
    Learning& learning = *replica.learning;
    if (learning.memory == Learning::Memory::none) {
      if (being_written_.contains(stage) || to_be_dropped(stage)) continue;
      learning.memory = Learning::Memory::being_allocated;
      return PrepareJob{stage, replica.applied};
    }
    for (const auto& [tensor, message] : learning.to_write) {
      if (message.step != replica.applied) continue;
      return WriteJob{stage, tensor, message.step, message.state};
    }
  }
  for (auto it = fetches_due_.begin(); it != fetches_due_.end(); ++it) {
    const auto& [learner, fetch] = *it;
    const auto replica = replicas_.find(fetch.stage);
    if (replica == replicas_.end() || replica->second.loading) continue;
    if (replica->second.learning || replica->second.applied < fetch.at_least) continue;
    reading_ = Reading{learner, replica->second.applied};
    const ReadJob job{fetch.stage, fetch.tensor};
    fetches_due_.erase(it);
    return job;
  }
  return std::nullopt;
}

void ReplicaHost::handle(const PrepareResult& result, double) {
  StageReplica& replica = replica_of(result.stage);
  if (!replica.learning) return;
  replica.learning->memory = Learning::Memory::ready;
  fetch(result.stage, replica);
}

void ReplicaHost::handle(const ReadResult& result, double) {
  const Reading read = *std::exchange(reading_, std::nullopt);
  if (!alive(read.learner)) return;
  if (read.learner != self_) replica_of(result.stage).use.bytes_sent += size_of(result.state);
  outbox_.send(read.learner, TensorMessage{result.stage, result.tensor, read.step, result.state});
}

void ReplicaHost::handle(const WriteResult& result, double) {
  StageReplica& replica = replica_of(result.stage);
  if (!replica.learning) return;
  Learning& learning = *replica.learning;
  learning.to_write.erase(result.tensor);
  learning.here[static_cast<std::size_t>(result.tensor)] = true;
  learning.hashes[static_cast<std::size_t>(result.tensor)] = result.hash;
  fetch(result.stage, replica);
  tell_learned(result.stage, replica);
}

void ReplicaHost::tell_learned(StageId stage, const StageReplica& replica) {
  if (!replica.learning->complete()) return;
  outbox_.send(view_.leader(), LearnedMessage{stage, replica.applied, replica.learning->hashes});
}

Step ReplicaHost::reachable_step(const StageReplica& replica) const {
  Step step = replica.applied;
  while (replica.reduced.contains(step.next())) step = step.next();
  return step;
}

// ---- Leaving stages, and going back to a checkpoint

void ReplicaHost::drop_all_but(const std::set<StageId>& stages) {
  for (const StageId stage : std::exchange(held_before_restart_, {})) {
    if (!stages.contains(stage)) drops_due_.push_back({stage});
  }
  for (auto it = replicas_.begin(); it != replicas_.end();) {
    const StageId stage = it->first;
    if (stages.contains(stage)) {
      ++it;
      continue;
    }
    drops_due_.push_back({stage});
    if (running_ && running_->stage == stage) running_->result_is_void = true;
    std::erase_if(updates_due_, [&](const ApplyJob& job) { return job.stage == stage; });
    for (auto work = works_.begin(); work != works_.end();) {
      if (work->first.stage != stage) {
        ++work;
        continue;
      }
      kept_bytes_ -= work->second.kept_bytes;
      forwards_due_.erase(work->first);
      backwards_due_.erase(work->first);
      work = works_.erase(work);
    }
    it = replicas_.erase(it);
  }
  std::erase_if(fetches_due_,
                [this](const auto& row) { return !serves_or_learns(row.second.stage); });
}

bool ReplicaHost::to_be_dropped(StageId stage) const {
  return std::any_of(drops_due_.begin(), drops_due_.end(),
                     [stage](const DropJob& drop) { return drop.stage == stage; });
}

void ReplicaHost::restart(const RestartPoint& checkpoint) {
  if (running_) running_->result_is_void = true;
  for (const auto& [stage, replica] : replicas_) held_before_restart_.insert(stage);
  replicas_.clear();
  works_.clear();
  forwards_due_.clear();
  backwards_due_.clear();
  kept_bytes_ = 0;
  updates_due_.clear();
  to_load_.clear();
  fetches_due_.clear();
  report_ = {};
  losses_.clear();
  sealed_facts_.clear();
  hashes_.clear();
  commit_log_ = CommitLog(plan_, checkpoint.state);
  resumed_from_ = Step(checkpoint.state.step);
  restart_files_ = checkpoint.files;
}

// Called when no job runs. A stage that is being written, or still to be freed, is loaded later.
void ReplicaHost::start_loading() {
  for (auto it = to_load_.begin(); it != to_load_.end();) {
    if (being_written_.contains(*it) || to_be_dropped(*it)) {
      ++it;
      continue;
    }
    outbox_.act(LoadStage{Incarnation(commit_log_.state().incarnation), *it, resumed_from_,
                          *restart_files_});
    ++loads_running_;
    it = to_load_.erase(it);
  }
}

void ReplicaHost::loaded(const StageLoaded& message) {
  --loads_running_;
  if (message.incarnation.value != commit_log_.state().incarnation) return;
  if (const auto replica = replicas_.find(message.stage); replica != replicas_.end()) {
    replica->second.loading = false;
  }
}

// ---- What the leader and others are told

void ReplicaHost::flush_report() {
  if (report_.empty()) return;
  outbox_.send(view_.leader(), std::exchange(report_, {}));
}

TableMessage ReplicaHost::table() const {
  TableMessage table;
  table.view = view_.number;
  table.incarnation = Incarnation(commit_log_.state().incarnation);
  for (const auto& [step, record] : commit_log_.commits()) table.commits.push_back(record);
  table.written = commit_log_.rows_written();
  table.checkpointed = commit_log_.checkpointed();
  table.hashes = hashes_;
  for (const auto& [microbatch, nats] : losses_) table.losses.push_back({microbatch, nats});
  for (const auto& [step, facts] : sealed_facts_) table.facts.push_back({step, facts});
  for (const auto& [stage, replica] : replicas_) {
    for (const auto& [step, own] : replica.accumulators) {
      if (step > commit_log_.committed()) table.stages.push_back(stage_row(stage, step, replica));
    }
    if (replica.learning && replica.learning->complete()) {
      table.learned.push_back({stage, reachable_step(replica), {}});
    }
    for (const auto& [step, reduced] : replica.reduced) {
      if (step > commit_log_.committed()) table.reduced.push_back(reduced);
    }
  }
  for (const auto& [id, work] : works_) {
    WorkRow& row = table.works.emplace_back();
    row.work = id;
    row.phase = work.phase();
    row.sent_to = work.sent_to;
    if (const PathRef& path = work.arrival.path) {
      row.planned_in = path->planned_in;
      row.last = path->last;
    }
    row.path_broken = path_broken(id, work);
    row.keeps_output = work.output != nullptr;
    row.gives_gradient = work.awaits_gradient || work.backward_due || work.input_gradient;
  }
  return table;
}

StageRow ReplicaHost::stage_row(StageId stage, Step step, const StageReplica& replica) const {
  const Accumulator& own = replica.accumulators.at(step);
  StageRow row{step, stage, own.microbatches, own.tensors, own.frozen, 0, {}};
  const auto reduction = replica.reductions.find(step);
  if (reduction != replica.reductions.end()) {
    row.chunk_replicas = reduction->second.chunk_replicas();
    row.chunks = reduction->second.chunks_in_place();
  }
  return row;
}

std::set<PeerId> ReplicaHost::awaited() const {
  std::set<PeerId> peers;
  for (const auto& [id, work] : works_) {
    // Of a validation microbatch, or one that is only sent again, this peer awaits no gradient: the
    // leader awaits what comes of it.
    const bool passed_on = id.microbatch.purpose == Purpose::validate || work.arrival.path;
    if (work.sent_to && (work.awaits_gradient || passed_on)) peers.insert(*work.sent_to);
  }
  for (const auto& [stage, replica] : replicas_) {
    for (const auto& [step, reduction] : replica.reductions) {
      // Until the commit: a reduction that is complete here may still lack something at others.
      if (reduction.closed() || step <= commit_log_.committed()) continue;
      for (const PeerId peer : reduction.partners()) peers.insert(peer);
    }
    if (!replica.learning) continue;
    for (const auto& [tensor, donor] : replica.learning->asked) peers.insert(donor);
  }
  std::erase_if(peers, [this](PeerId peer) { return !alive(peer); });
  return peers;
}

std::string ReplicaHost::activity() const {
  if (running_) return running_->what;
  for (const auto& [stage, replica] : replicas_) {
    for (const auto& [step, reduction] : replica.reductions) {
      if (reduction.closed()) continue;
      if (!reduction.complete()) return reduction.waiting_for();
      return format("the commit of step %lld by the leader", static_cast<long long>(step.value));
    }
  }
  return format(
      "microbatches (%zu known here; due: %zu forward passes, %zu backward passes, %zu updates)",
      works_.size(), forwards_due_.size(), backwards_due_.size(), updates_due_.size());
}

std::string ReplicaHost::left_over() const {
  const Step committed = commit_log_.committed();
  std::int64_t kept_bytes = 0;
  for (const auto& [id, work] : works_) {
    kept_bytes += work.kept_bytes;
    const bool training = id.microbatch.purpose == Purpose::train;
    if (training && id.microbatch.step <= committed) return "a microbatch of a committed step";
    if (!serves_or_learns(id.stage)) return "a microbatch of a stage that was left";
  }
  if (kept_bytes != kept_bytes_) return "kept bytes that belong to no microbatch";
  if (!losses_.empty() && losses_.begin()->first.step <= committed)
    return "the loss of a microbatch";
  if (!sealed_facts_.empty() && sealed_facts_.begin()->first <= committed) return "a step's facts";
  for (const auto& [learner, fetch] : fetches_due_) {
    if (!serves_or_learns(fetch.stage)) return "a learner's fetch from a stage that was left";
  }
  for (const auto& [stage, replica] : replicas_) {
    const auto is_old = [&](const auto& by_step) {
      return !by_step.empty() && by_step.begin()->first <= replica.applied;
    };
    if (is_old(replica.accumulators) || is_old(replica.reductions) || is_old(replica.reduced)) {
      return "sums of an applied step";
    }
  }
  return "";
}

}  // namespace swarmpi
