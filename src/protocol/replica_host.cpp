#include "protocol/replica_host.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/collectives.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/microbatches.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {

ReplicaHost::ReplicaHost(PeerId self, const RunPlan& plan, const ResumeState& resume,
                         Outbox& outbox, const double& now_s, const double& awake_s)
    : self_(self),
      plan_(plan),
      outbox_(outbox),
      now_s_(now_s),
      awake_s_(awake_s),
      run_time_ahead_s_(resume.time_s - now_s),
      job_watch_(plan),
      history_(plan, resume) {}

void ReplicaHost::take_part(Term run, bool joins, std::optional<double> born_s) {
  run_ = run;
  joins_ = joins;
  time_ledger_.born(born_s.value_or(now_s_));
  idle_s_ = communication_s_ = transfer_s_ = 0;  // what went by before was no time of this peer
}

void ReplicaHost::book_time() {
  if (running_) {
    time_ledger_.worked(now_s_, carried_s_);
  } else {
    time_ledger_.waited(now_s_, why_waiting(), carried_s_);
  }
  const double passed_s = now_s_ - std::exchange(booked_until_s_, now_s_);
  const double carried_s = carried_s_ - std::exchange(booked_carried_s_, carried_s_);
  if (!running_) {
    (reducing() ? communication_s_ : idle_s_) += passed_s;
    transfer_s_ += std::min(carried_s, passed_s);
  }
  if (!plan_.swarm.needs_loads()) return;
  for (auto& [stage, replica] : history_.replicas) {
    replica.waited(passed_s * static_cast<double>(history_.works.passes_due(stage)));
  }
}

// ---- Views
// Which stages this peer serves and learns, and what it has of them.

void ReplicaHost::adopt(ViewRef view) {
  const std::vector<PeerId>&before = view_->ids(), &now = view->ids();
  const bool all_are_there = std::includes(now.begin(), now.end(), before.begin(), before.end());
  if (!all_are_there || repair_ == Repair::awaits_view) repair_ = Repair::awaits_plan;
  view_ = std::move(view);
  in_view_ = view_->contains(self_);
  reported_in_view_ = false;
  const auto stages_in = [&](const View::Roles& roles) {
    const auto mine = roles.find(self_);
    return mine == roles.end() ? std::set<StageId>() : mine->second;
  };
  const std::set<StageId> serves = stages_in(view_->members());
  const std::set<StageId> learns = stages_in(view_->learners());
  std::set<StageId> all = serves;
  all.insert(learns.begin(), learns.end());
  drop_all_but(all);
  history_.works.set_memory(plan_.kept_apart
                                ? plan_.kept_bytes
                                : kept_bytes(plan_.needs, *view_, self_, plan_.kept_bytes));
  served_ = served_ || !serves.empty();
  for (const StageId stage : serves) serve(stage);
  for (const StageId stage : learns) learn(stage);
  make_collectives();
  for (auto& [stage, replica] : history_.replicas) {
    replica.count_waiting_anew();
    if (const auto refusal = replica.refused_to_load()) tell(*refusal);
  }
}

bool ReplicaHost::waits_for_room() const {
  return access_.frees() && view_->budgets().contains(self_);
}

void ReplicaHost::serve(StageId stage) {
  const auto [entry, is_new] =
      history_.replicas.try_emplace(stage, plan_, self_, stage, history_.resumed_from);
  StageReplica& replica = entry->second;
  if (plan_.swarm.has_pipelines()) {
    history_.order->set_share({static_cast<std::int64_t>(view_->place(self_, stage)),
                               static_cast<std::int64_t>(view_->replicas(stage).size())});
  }
  if (is_new && access_.loads()) {
    access_.load_later(stage);
    replica.load();
  }
  if (const Learning* const learned = replica.learning()) {
    history_.facts.add_hash({replica.applied(), stage, {learned->hashes(), {}}}, false);
    replica.serve_learned();
  }
  const StageId next = stage.next();
  if (next.value == plan_.stages()) return;
  std::unique_ptr<Router>& router = routers_[next];
  if (!router) router = make_router(plan_.swarm, self_, next);
  router->set_peers(view_->choices(next), view_->place(self_, stage));
}

StageReplica& ReplicaHost::replica_of(StageId stage) {
  const auto found = history_.replicas.find(stage);
  SWARMPI_CHECK(found != history_.replicas.end(),
                fmt::format("stage {} is served here", stage.value));
  return found->second;
}

bool ReplicaHost::contributed(const WorkId& work) const {
  return history_.replicas.at(work.stage).contributed(work.microbatch);
}

// ---- Microbatches
// The table of what this peer has of each microbatch: from the message that brings it, over its
// passes, to the commit of its step.

void ReplicaHost::receive(const IssueMessage& message, PeerId from) {
  if (!serves_or_learns(StageId(0))) return;
  take_on({message.microbatch, StageId(0)}, {nullptr, from, message.path});
}

void ReplicaHost::receive(const ForwardMessage& message, PeerId from) {
  if (!serves_or_learns(message.work.stage)) return;
  // A peer that has left its stage had no such microbatch in its table, so the leader has asked
  // another for it.
  const StageId before(message.work.stage.value - 1);
  if (!view_->serves(from, before)) return;
  if (from != self_) {
    replica_of(message.work.stage).use().bytes_received += size_of(message.activations);
  }
  take_on(message.work, {message.activations, from, message.path});
}

// Without a path, a microbatch that is known already was sent twice. With one, it is on its way
// again because of a death: peers that have done their part pass it on.
void ReplicaHost::take_on(const WorkId& id, Arrival arrival) {
  if (id.microbatch.step <= history_.commit_log.committed()) return;
  const Work* const known = std::as_const(history_.works).find(id);
  if (known != nullptr || contributed(id)) {
    if (!arrival.path) return;
    const bool sent_twice = known != nullptr && known->active() && known->arrival.path &&
                            known->arrival.from == arrival.from &&
                            arrival.path->planned_in == known->arrival.path->planned_in;
    if (sent_twice) return;
  }
  Work& work = history_.works.enter(id);
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
      history_.works.backward_due(id, work, nullptr);  // forward, loss and backward in one
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
    history_.works.forward_due(id, work);
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
  } else if (work.sent_to && view_->serves(*work.sent_to, onward.stage)) {
    to = *work.sent_to;
  } else {
    to = routers_.at(onward.stage)->choose(id.microbatch);
  }
  work.sent_to = to;
  send_boundary(to, id.stage, output, ForwardMessage{onward, output, path});
}

void ReplicaHost::receive(const ForwardDone& message, PeerId from) {
  const auto router = routers_.find(message.stage);
  if (router != routers_.end()) router->second->measured(from, message.compute_s);
}

void ReplicaHost::receive(const BackwardMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (!serves_or_learns(id.stage)) return;
  if (from != self_) replica_of(id.stage).use().bytes_received += size_of(message.gradient);
  Work* const known = history_.works.find(id);
  if (known == nullptr) return;
  if (!known->awaits_gradient) return;  // sent twice, or done
  history_.works.backward_due(id, *known, message.gradient);
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
  if (to != self_) replica_of(from_stage).use().bytes_sent += size_of(payload);
  outbox_.send(to, std::move(message));
}

void ReplicaHost::receive(const ResendMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (id.microbatch.step <= history_.commit_log.committed()) return;
  Work* const known = history_.works.find(id);
  if (known == nullptr || (!known->active() && !known->output)) {
    return outbox_.send(from, UnableMessage{id.microbatch});
  }
  known->arrival.path = message.path;
  pass_on(id, *known);
}

void ReplicaHost::receive(const RedirectMessage& message, PeerId from) {
  const WorkId& id = message.work;
  if (id.microbatch.step <= history_.commit_log.committed()) return;
  Work* const known = history_.works.find(id);
  const bool coming = known != nullptr && (known->awaits_gradient || known->backward_due);
  if (!coming && (known == nullptr || !known->input_gradient)) {
    return outbox_.send(view_->leader(), UnableMessage{id.microbatch});
  }
  known->arrival.from = from;
  if (!coming) send_back(id, *known);
}

bool ReplicaHost::path_broken(const WorkId& id, const Work& work) const {
  if (in_last_stage(id)) return false;
  if (const PathRef& path = work.arrival.path) {
    const auto ahead = path->holders.upper_bound(id.stage);
    const auto gone = [this](const auto& holder) {
      return !view_->serves(holder.second, holder.first);
    };
    if (std::any_of(ahead, path->holders.end(), gone)) return true;
    if (ahead != path->holders.end() && ahead->first == id.stage.next()) return false;
  }
  return view_->replicas(id.stage.next()).empty();
}

bool ReplicaHost::undeliverable(const WorkId& id, const Work& work) const {
  return id.stage.value > 0 && !view_->serves(work.arrival.from, StageId(id.stage.value - 1));
}

// ---- Jobs
// One at a time. Which comes next: what completes a step first, then backward, then forward.

void ReplicaHost::start_job() {
  mind_collectives();
  if (running_) return;
  start_loading();
  // Jobs and loading both allocate, fill and free stages: never at the same time.
  if (access_.loading()) return;
  std::optional<Job> job = next_job();
  if (!job) return;
  running_ = Running{JobName(*job), now_s_};
  job_watch_.begin(*job, awake_s_);
  if (const auto replica = history_.replicas.find(running_->name.stage());
      replica != history_.replicas.end()) {
    replica->second.sample_queue(history_.works.passes_due());
  }
  outbox_.act(StartJob{*std::move(job)});
}

std::optional<Job> ReplicaHost::next_job() {
  if (auto job = next_trial()) return job;
  if (auto job = access_.next_drop()) return job;
  if (auto job = next_learning_job()) return job;
  if (auto job = next_update_job()) return job;
  if (auto job = next_reduction_job()) return job;
  return next_microbatch_job();
}

void ReplicaHost::receive(const TryMessage& message, PeerId from) {
  trial_ = Trial{from, message.number};
}

// Who has to load a stage yet can do nothing for others.
std::optional<Job> ReplicaHost::next_trial() {
  const auto& replicas = history_.replicas;
  const auto loads = [](const auto& entry) { return entry.second.loading(); };
  if (!trial_ || std::any_of(replicas.begin(), replicas.end(), loads)) return std::nullopt;
  for (const auto& [stage, replica] : replicas) {
    if (replica.learning() != nullptr) continue;
    trying_ = std::exchange(trial_, std::nullopt);
    return TryJob{stage, {history_.commit_log.committed().next(), Purpose::train, 0}};
  }
  return std::nullopt;
}

// Backward first: it frees memory, and the stages before wait for it.
std::optional<Job> ReplicaHost::next_microbatch_job() {
  const MicrobatchTable& works = history_.works;
  const auto takes = [this](const WorkId& id) {
    return replica_of(id.stage).takes(id.microbatch) && history_.order->may_begin_backward(id);
  };
  if (const auto due = history_.works.take_backward(takes)) {
    const auto& [id, gradient] = *due;
    const bool add = replica_of(id.stage).adds(id.microbatch);
    return BackwardJob{id, works.find(id)->arrival.input, gradient,
                       history_.commit_log.exponents(id.microbatch.step), add};
  }
  const auto may_run = [&](const WorkId& id) {
    return replica_of(id.stage).weights_ready(id.microbatch.step) &&
           !path_broken(id, *works.find(id)) && history_.order->may_begin_forward(id);
  };
  if (const auto id = history_.works.take_forward(may_run)) {
    return ForwardJob{*id, works.find(*id)->arrival.input};
  }
  return std::nullopt;
}

void ReplicaHost::finished(const JobFinished& job) {
  SWARMPI_CHECK(running_.has_value(), "a job that finishes was started");
  // On a busy machine a job begins late, and its result is heard of late: that is idle time.
  idle_s_ += std::max(0.0, now_s_ - running_->started_s - job.duration_s);
  job_watch_.end(job.duration_s);
  if (const auto tried = std::exchange(trying_, std::nullopt)) {
    outbox_.send(tried->by, TriedMessage{tried->number});
  }
  const auto replica = history_.replicas.find(running_->name.stage());
  const bool is_wanted = replica != history_.replicas.end() && !running_->result_is_void;
  book_job(job.result, is_wanted, job.duration_s);
  if (is_wanted) {
    replica->second.use().compute_s += job.duration_s;
    visit([&](const auto& result) { handle(result, job.duration_s); }, job.result);
  }
  running_.reset();
}

// ---- Results of passes

void ReplicaHost::handle(const ForwardResult& result, double duration_s) {
  const WorkId& id = result.work;
  history_.order->forward_done(id);
  Work* const known = history_.works.find(id);
  const bool validates = id.microbatch.purpose == Purpose::validate;
  if (known == nullptr || (validates && known->forward_s > 0)) {
    time_ledger_.book(&GoodputRow::repeated_s, duration_s);
  } else if (validates) {
    time_ledger_.book(&GoodputRow::useful_s, duration_s);
  } else {
    time_ledger_.open(id.microbatch.step, duration_s);
  }
  if (known == nullptr) return;  // committed meanwhile: a repair has had it done once more
  Work& work = *known;
  work.forward_due = false;
  work.forward_s = duration_s;
  report_forward_done(id, work, duration_s);
  if (in_last_stage(id)) {
    history_.facts.add_loss(id.microbatch, result.loss_nats);
  } else if (path_broken(id, work)) {
    work.output = result.output;  // waits for another path
  } else {
    send_output(id, work, result.output);
    if (!work.output && history_.works.keep(work, result.output)) work.output = result.output;
  }
  history_.works.drop_if_done(id);
}

void ReplicaHost::handle(const BackwardResult& result, double duration_s) {
  const WorkId& id = result.work;
  StageReplica& replica = replica_of(id.stage);
  history_.order->backward_done(id);
  ++replica.use().microbatches;
  Work* const known = history_.works.find(id);
  if (!result.contributions.empty()) {
    const double forward_s = known != nullptr ? known->forward_s : 0;
    replica.use().useful_s += duration_s + forward_s;
    time_ledger_.open(id.microbatch.step, duration_s);
    time_ledger_.counts(id.microbatch.step, duration_s + forward_s);
    const bool is_news = replica.add(result);
    history_.facts.add_contribution(
        id, is_news ? result.contributions : std::vector<kernels::Contribution>());
  } else {
    time_ledger_.book(&GoodputRow::repeated_s, duration_s);
    ++replica.use().repeated;
    replica.use().recovery_s += duration_s;
    const bool open = id.microbatch.step > history_.commit_log.committed();
    if (open && replica.lacks(id.microbatch)) {
      outbox_.send(view_->leader(), UnableMessage{id.microbatch});
    }
  }
  if (known == nullptr) return;  // committed meanwhile
  Work& work = *known;
  if (in_last_stage(id)) {
    history_.facts.add_loss(id.microbatch, result.loss_nats);
    report_forward_done(id, work, duration_s);
  }
  work.backward_due = false;
  work.input_gradient = result.input_gradient;
  send_back(id, work);
  if (!undeliverable(id, work) && !history_.works.keep(work, work.input_gradient))
    work.input_gradient.reset();
  history_.works.drop_if_done(id);
}

// Only where the sender can choose between replicas.
void ReplicaHost::report_forward_done(const WorkId& id, const Work& work, double compute_s) {
  if (plan_.swarm.has_pipelines()) return;
  if (id.microbatch.purpose != Purpose::train || view_->replicas(id.stage).size() < 2) return;
  if (!alive(work.arrival.from)) return;
  outbox_.send(work.arrival.from, ForwardDone{id.stage, compute_s});
}

// ---- Seal and reduction

void ReplicaHost::receive(const SealMessage& message, PeerId from) {
  if (message.step <= history_.commit_log.committed()) return;
  history_.facts.set_sealed(message.step, message.facts);
  const auto named = [this](const std::vector<PeerId>& peers) {
    return std::find(peers.begin(), peers.end(), self_) != peers.end();
  };
  for (const StageSeal& seal : message.stages) {
    const bool learns = named(seal.learners);
    if (!serves_or_learns(seal.stage) || (!learns && !named(seal.replicas))) continue;
    StageReplica& replica = replica_of(seal.stage);
    if (replica.knows(seal.seal)) continue;  // sent twice, or void
    if (CollectiveWay* const way = way_of(seal.stage)) way->seal_is_void(message.step, outbox_);
    if (const auto refused = replica.refusal(message, seal, learns)) {
      outbox_.send(from, *refused);
      continue;
    }
    answer(replica.freeze(message, seal, history_.commit_log.exponents(message.step), outbox_));
  }
}

void ReplicaHost::receive(const ReopenMessage& message, PeerId) {
  if (message.step <= history_.commit_log.committed() || !serves_or_learns(message.stage)) return;
  if (CollectiveWay* const way = way_of(message.stage)) way->seal_is_void(message.step, outbox_);
  if (const auto not_added = replica_of(message.stage).reopen(message.step)) {
    outbox_.send(view_->leader(), UnableMessage{*not_added});
  }
}

void ReplicaHost::receive(const ShareMessage& message, PeerId from) {
  if (serves_or_learns(message.stage)) replica_of(message.stage).receive(message, from, outbox_);
}

void ReplicaHost::receive(const ChunkMessage& message, PeerId from) {
  if (!serves_or_learns(message.stage)) return;
  answer(replica_of(message.stage).receive(message, from, outbox_));
}

std::optional<Job> ReplicaHost::next_reduction_job() {
  for (auto& [stage, replica] : history_.replicas) {
    if (auto job = replica.next_reduction_job()) return job;
  }
  return std::nullopt;
}

void ReplicaHost::handle(const ShareResult& result, double) {
  answer(replica_of(result.stage).finished(result, outbox_));
}
void ReplicaHost::handle(const ReduceResult& result, double) {
  answer(replica_of(result.stage).finished(result, outbox_));
}
void ReplicaHost::handle(const PlaceResult& result, double) {
  answer(replica_of(result.stage).finished(result, outbox_));
}
void ReplicaHost::handle(const GatherResult& result, double) {
  answer(replica_of(result.stage).finished(result, outbox_));
}

void ReplicaHost::answer(std::optional<ReductionAnswer> answer) {
  if (!answer) return;
  std::visit([this](auto& message) { outbox_.send(view_->leader(), std::move(message)); }, *answer);
}

bool ReplicaHost::reducing() const {
  return std::any_of(history_.replicas.begin(), history_.replicas.end(),
                     [](const auto& entry) { return entry.second.reducing(); });
}

// ---- Collectives

void ReplicaHost::leave_collectives() {
  for (auto& [stage, way] : ways_) way.leave_view(outbox_);
  ways_.clear();
}

void ReplicaHost::make_collectives() {
  leave_collectives();
  if (!plan_.swarm.has_collectives()) return;
  for (const auto& [stage, replica] : history_.replicas) {
    const bool has_others = view_->replicas(stage).size() > 1;
    if (!has_others || !view_->serves(self_, stage)) continue;
    ways_.try_emplace(stage, self_, stage, *view_, outbox_);
  }
}

CollectiveWay* ReplicaHost::way_of(StageId stage) {
  const auto found = ways_.find(stage);
  return found == ways_.end() ? nullptr : &found->second;
}

void ReplicaHost::mind_collectives() {
  if (!plan_.swarm.has_collectives()) return;
  for (auto& [stage, replica] : history_.replicas) {
    replica.mind_collective(way_of(stage), outbox_);
  }
}

void ReplicaHost::lost(PeerId peer) {
  if (view_->contains(peer)) repair_ = Repair::awaits_view;
  for (auto& [stage, way] : ways_) way.lost(peer, outbox_);
}

void ReplicaHost::receive(const CollectiveIdMessage& message, PeerId) {
  if (CollectiveWay* const way = way_of(message.stage)) way->receive(message, outbox_);
}
void ReplicaHost::receive(const EnterMessage& message, PeerId) {
  if (CollectiveWay* const way = way_of(message.stage)) way->receive(message, outbox_);
}
void ReplicaHost::receive(const CollectiveIdMade& made) {
  if (CollectiveWay* const way = way_of(made.stage)) way->receive(made, outbox_);
}
void ReplicaHost::receive(const CollectiveReady& ready) {
  if (CollectiveWay* const way = way_of(ready.stage)) way->receive(ready, outbox_);
}
void ReplicaHost::receive(const CollectiveFailed& failed) {
  if (CollectiveWay* const way = way_of(failed.stage)) way->receive(failed, outbox_);
}

void ReplicaHost::receive(const CollectiveDone& done) {
  CollectiveWay* const way = way_of(done.stage);
  if (way == nullptr || !way->counts(done)) return;
  answer(replica_of(done.stage).collective_is_done(done));
}

// ---- Commit and update

void ReplicaHost::receive(const CommitMessage& message, PeerId) {
  history_.commit_log.written(message.written, message.checkpointed);
  if (message.record->step <= history_.commit_log.committed()) return;  // sent twice
  const bool follows = message.record->step == history_.commit_log.committed().next();
  history_.commit_log.add(message.record);
  run_time_ahead_s_ = std::max(run_time_ahead_s_, message.record->time_s - now_s_);
  history_.facts.forget(message.record->step, history_.commit_log.rows_written());
  history_.works.forget(message.record->step);
  time_ledger_.committed(message.record->step);
  history_.order->committed(message.record->step);
  if (plan_.delay() == 1) {  // else passes of the next step are under way
    for (const auto& [stage, router] : routers_) router->step_over();
  }
  if (!follows) return learn_from_last_commit();
  for (const auto& [stage, replica] : history_.replicas)
    history_.updates_due.push_back({stage, message.record});
}

std::optional<Job> ReplicaHost::next_update_job() {
  for (auto due = history_.updates_due.begin(); due != history_.updates_due.end(); ++due) {
    if (access_.being_written(due->stage)) continue;
    std::optional<Job> job = replica_of(due->stage).update(due->record);
    if (!job) continue;
    if (holds_alternative<ApplyJob>(*job)) history_.updates_due.erase(due);
    return job;
  }
  for (auto& [stage, replica] : history_.replicas) {
    if (auto job = replica.next_copy_job()) return job;
  }
  return std::nullopt;
}

void ReplicaHost::handle(const ApplyResult& result, double) {
  StageReplica& replica = replica_of(result.stage);
  replica.updated(result);
  if (replica.learning() != nullptr) {
    fetch(result.stage, replica);
    return tell_learned(result.stage, replica);
  }
  if (!result.ratios.empty()) {
    for (const PeerId learner : view_->learners_of(result.stage)) {
      outbox_.send(learner, RatiosMessage{result.stage, result.step, result.ratios});
    }
  }
  history_.facts.add_hash({result.step, result.stage, result.hash}, true);
  PeerRow use = replica.take_use(result.step);
  // The waiting of a peer with several stages is booked to the first that reports.
  use.idle_s = std::exchange(idle_s_, 0.0);
  use.communication_s = std::exchange(communication_s_, 0.0);
  use.transfer_s = std::exchange(transfer_s_, 0.0);
  history_.facts.add_use(use);
  tell_goodput(result.step);
}

void ReplicaHost::receive(const WeightsMessage& message, PeerId from) {
  if (serves_or_learns(message.stage)) replica_of(message.stage).receive(message, from);
}

void ReplicaHost::receive(const WeightsPlaced& message, PeerId from) {
  if (serves_or_learns(message.stage)) replica_of(message.stage).receive(message, from);
}

void ReplicaHost::handle(const WeightsResult& result, double) {
  replica_of(result.stage).finished(result, outbox_);
}

void ReplicaHost::handle(const PlaceWeightsResult& result, double) {
  const Status placed = replica_of(result.stage).finished(result, outbox_);
  if (!placed.ok()) outbox_.send(view_->leader(), FailureMessage{placed.code(), placed.message()});
}

// ---- Checkpoint

// A new leader may ask for a part that is being written already, or was.
void ReplicaHost::receive(const CheckpointMessage& message, PeerId from) {
  if (!serves_or_learns(message.stage)) return;
  StageReplica& replica = replica_of(message.stage);
  if (access_.being_written(message.stage)) return;
  if (replica.stored() && replica.stored()->step == message.step) return stored(*replica.stored());
  if (history_.commit_log.committed() != message.step || replica.applied() != message.step) {
    // Asked in a dead peer's place, but its own state has moved on.
    outbox_.send(from, StageStoredMessage{message.step, message.stage, false, {}, {}, ""});
    return;
  }
  if (!storage_hangs_.empty()) {
    outbox_.send(from,
                 StageStoredMessage{message.step, message.stage, false, {}, {}, storage_hangs_});
    return;
  }
  access_.begin_writing(message.stage);
  outbox_.act(StoreStage{message.step, message.stage, view_->number.term});
}

void ReplicaHost::stored(const StageStored& part) {
  access_.written(part.stage);
  const auto replica = history_.replicas.find(part.stage);
  if (replica == history_.replicas.end() || replica->second.applied() != part.step) return;
  replica->second.set_stored(part);
  outbox_.send(view_->leader(),
               StageStoredMessage{part.step, part.stage, true, part.file, part.tensor_hashes, ""});
}

std::optional<double> ReplicaHost::loading_s() const {
  return access_.loading() ? std::optional(awake_s_ - loading_since_s_) : std::nullopt;
}

void ReplicaHost::give_up_storing(const std::string& why) {
  storage_hangs_ = why;
  for (const StageId stage : access_.give_up_writing()) {
    const auto replica = history_.replicas.find(stage);
    if (replica == history_.replicas.end()) continue;
    outbox_.send(view_->leader(),
                 StageStoredMessage{replica->second.applied(), stage, false, {}, {}, why});
  }
}

// ---- Learning

void ReplicaHost::learn(StageId stage) {
  const auto [entry, is_new] =
      history_.replicas.try_emplace(stage, plan_, self_, stage, history_.commit_log.committed());
  StageReplica& replica = entry->second;
  if (is_new) replica.learn(history_.commit_log.committed());
  SWARMPI_CHECK(replica.learning() != nullptr, "a stage is learned or served, not both");
  if (replica.learning()->refused()) outbox_.send(view_->leader(), NoRoomMessage{stage});
  replica.learning()->forget_donors(*view_);
  fetch(stage, replica);
}

// The leader knows no commit between the last that this learner has heard of and this one, so it
// cannot tell it what to apply.
void ReplicaHost::learn_from_last_commit() {
  if (running_) running_->result_is_void = true;
  history_.updates_due.clear();
  for (auto& [stage, replica] : history_.replicas) {
    SWARMPI_CHECK(replica.learning() != nullptr, "a replica hears of every commit");
    replica.learn(history_.commit_log.committed());
  }
}

void ReplicaHost::fetch(StageId stage, StageReplica& replica) {
  for (const auto& [donor, request] :
       replica.learning()->ask(self_, view_->replicas(stage), now_s_)) {
    outbox_.send(donor, request);
  }
}

void ReplicaHost::receive(const FetchMessage& message, PeerId from) {
  if (serves_or_learns(message.stage)) history_.requests.receive(message, from);
}

void ReplicaHost::receive(const PieceMessage& message, PeerId from) {
  Learning* const learning = learning_of(message.stage);
  if (learning == nullptr) return;
  learning->receive(message, from, now_s_);
  fetch(message.stage, replica_of(message.stage));
}

void ReplicaHost::receive(const RatiosMessage& message, PeerId) {
  if (Learning* const learning = learning_of(message.stage)) learning->receive(message);
}

Learning* ReplicaHost::learning_of(StageId stage) {
  const auto found = history_.replicas.find(stage);
  return found == history_.replicas.end() ? nullptr : found->second.learning();
}

// A piece that has come is written before the next update, so that it takes part in it.
std::optional<Job> ReplicaHost::next_learning_job() {
  for (auto& [stage, replica] : history_.replicas) {
    Learning* const learning = replica.learning();
    if (learning == nullptr) continue;
    if (learning->to_be_allocated()) {
      if (!access_.is_free(stage) || waits_for_room()) continue;
      learning->allocating();
      return PrepareJob{stage, replica.applied()};
    }
    if (auto job = learning->next_write(replica.applied())) return job;
  }
  return history_.requests.next([this](StageId stage) -> std::optional<Step> {
    const auto replica = history_.replicas.find(stage);
    const bool served = replica != history_.replicas.end() && !replica->second.loading() &&
                        replica->second.learning() == nullptr;
    return served ? std::optional(replica->second.applied()) : std::nullopt;
  });
}

void ReplicaHost::handle(const PrepareResult& result, double) {
  StageReplica& replica = replica_of(result.stage);
  if (replica.learning() == nullptr) return;
  if (!result.has_room) {
    replica.learning()->refuse();
    return outbox_.send(view_->leader(), NoRoomMessage{result.stage});
  }
  replica.learning()->allocated();
  fetch(result.stage, replica);
}

void ReplicaHost::handle(const ReadResult& result, double) {
  auto [learner, piece] = history_.requests.read(result);
  if (!alive(learner)) return;
  if (learner != self_) replica_of(result.stage).use().bytes_sent += size_of(result.state);
  outbox_.send(learner, std::move(piece));
}

void ReplicaHost::handle(const WriteResult& result, double) {
  StageReplica& replica = replica_of(result.stage);
  if (replica.learning() == nullptr) return;
  replica.learning()->written(result);
  fetch(result.stage, replica);
  tell_learned(result.stage, replica);
}

void ReplicaHost::tell_learned(StageId stage, const StageReplica& replica) {
  const Learning& learning = *replica.learning();
  if (!learning.complete()) return;
  outbox_.send(view_->leader(), LearnedMessage{stage, replica.applied(), learning.hashes()});
}

// ---- Leaving stages, and going back to a checkpoint

void ReplicaHost::drop_all_but(const std::set<StageId>& stages) {
  access_.keep(stages);
  for (auto it = history_.replicas.begin(); it != history_.replicas.end();) {
    const StageId stage = it->first;
    if (stages.contains(stage)) {
      ++it;
      continue;
    }
    access_.drop(stage);
    if (running_ && running_->name.stage() == stage) running_->result_is_void = true;
    std::erase_if(history_.updates_due, [&](const Update& due) { return due.stage == stage; });
    history_.works.drop_stage(stage);
    it = history_.replicas.erase(it);
  }
  history_.requests.drop([this](StageId stage) { return !serves_or_learns(stage); });
}

void ReplicaHost::restart(const RestartPoint& checkpoint) {
  if (running_) running_->result_is_void = true;
  time_ledger_.go_back();
  leave_collectives();
  std::set<StageId> held;
  for (const auto& [stage, replica] : history_.replicas) held.insert(stage);
  access_.go_back(held, checkpoint.files);
  for (const auto& [stage, router] : routers_) router->go_back();
  history_ = History(plan_, checkpoint.state);
}

// Called when no job runs. A stage that is being written, or still to be freed, is loaded later;
// where memory is bounded all that is to be freed is freed first.
void ReplicaHost::start_loading() {
  if (waits_for_room()) return;
  if (!access_.loading()) loading_since_s_ = awake_s_;
  for (const StageId stage : access_.begin_loading()) {
    outbox_.act(LoadStage{Incarnation(history_.commit_log.state().incarnation), stage,
                          history_.resumed_from, access_.files(),
                          ownership_of(plan_.swarm, *view_, self_, stage)});
  }
}

void ReplicaHost::loaded(const StageLoaded& message) {
  access_.loaded();
  if (message.incarnation.value != history_.commit_log.state().incarnation) return;
  const auto replica = history_.replicas.find(message.stage);
  if (replica == history_.replicas.end()) return;
  if (message.has_room && message.damage.empty()) return replica->second.loaded();
  LoadRefusal refusal = NoRoomMessage{message.stage};
  if (message.has_room) {
    refusal = DamagedMessage{message.stage, message.incarnation, message.damage};
  }
  tell(refusal);
  replica->second.refuse_to_load(std::move(refusal));
}

void ReplicaHost::tell(const LoadRefusal& refusal) {
  std::visit([this](const auto& message) { outbox_.send(view_->leader(), message); }, refusal);
}

// ---- What the leader and others are told

// Not for longer than a heartbeat's time, and never over a change of views.
bool ReplicaHost::report_can_wait() const {
  const std::optional<Step> goes_on = running_ ? running_->name.step_of_pass() : std::nullopt;
  return reported_in_view_ && goes_on && history_.facts.can_wait(*goes_on) &&
         now_s_ - *report_waits_since_s_ < plan_.swarm.heartbeat_s;
}

void ReplicaHost::flush_report() {
  if (!history_.facts.has_report()) return;
  if (!report_waits_since_s_) report_waits_since_s_ = now_s_;
  if (report_can_wait()) return;
  report_waits_since_s_.reset();
  reported_in_view_ = true;
  if (plan_.swarm.needs_loads()) {
    for (const auto& [stage, replica] : history_.replicas) {
      if (replica.learning() != nullptr) continue;
      history_.facts.add_load({view_->number, stage, replica.waited_s()});
    }
  }
  // Of what follows the last step, such as validation, no other row tells.
  const Step last(plan_.train.steps);
  if (told_ == last) history_.facts.add_last_goodput(named(time_ledger_.booked(), last.next()));
  outbox_.send(view_->leader(), history_.facts.take_report());
}

// ---- Where the time goes

TimeLedger::Wait ReplicaHost::why_waiting() const {
  using enum TimeLedger::Wait;
  if (!in_view_ || is_starting()) return start;
  if (repair_ != Repair::none || access_.loading() || only_learns()) return repair;
  const auto held_up = [this](const Update& due) { return access_.being_written(due.stage); };
  const auto& due = history_.updates_due;
  return std::any_of(due.begin(), due.end(), held_up) ? checkpoint : others;
}

bool ReplicaHost::only_learns() const {
  const auto& replicas = history_.replicas;
  const auto learns = [](const auto& entry) { return entry.second.learning() != nullptr; };
  return !replicas.empty() && std::all_of(replicas.begin(), replicas.end(), learns);
}

bool ReplicaHost::is_starting() const { return joins_ && !served_ && only_learns(); }

void ReplicaHost::book_job(const JobResult& result, bool is_wanted, double took_s) {
  time_ledger_.job_over(took_s);
  using Column = TimeLedger::Column;
  constexpr Column kReduction = &GoodputRow::reduction_s;
  const Column pass = is_wanted ? nullptr : &GoodputRow::repeated_s;
  const Column download = is_starting() ? &GoodputRow::start_s : &GoodputRow::repair_s;
  const Column column = visit(
      Overloaded{
          [&](const ForwardResult&) { return pass; }, [&](const BackwardResult&) { return pass; },
          [&](const PrepareResult&) { return download; },
          [&](const ReadResult&) { return download; }, [&](const WriteResult&) { return download; },
          [&](const DropResult&) { return download; }, [&](const TryResult&) { return download; },
          [&](const auto&) { return kReduction; }},
      result);
  if (column != nullptr) time_ledger_.book(column, took_s);
}

void ReplicaHost::tell_goodput(Step step) {
  const auto lags = [step](const auto& entry) {
    return entry.second.learning() == nullptr && entry.second.applied() < step;
  };
  if (std::any_of(history_.replicas.begin(), history_.replicas.end(), lags)) return;
  told_ = step;
  history_.facts.add_goodput(named(time_ledger_.take(), step));
}

GoodputRow ReplicaHost::named(GoodputRow row, Step step) const {
  row.step = step.value;
  row.peer = self_.value;
  row.run = run_.value;
  row.incarnation = history_.commit_log.state().incarnation;
  return row;
}

TableMessage ReplicaHost::table() const {
  TableMessage table;
  table.view = view_->number;
  table.incarnation = Incarnation(history_.commit_log.state().incarnation);
  for (const auto& [step, record] : history_.commit_log.commits()) table.commits.push_back(record);
  table.written = history_.commit_log.rows_written();
  table.untold_s = time_ledger_.untold_s();
  table.checkpointed = history_.commit_log.checkpointed();
  history_.facts.fill(table);
  for (const auto& [stage, replica] : history_.replicas)
    replica.fill(table, history_.commit_log.committed());
  for (const auto& [id, work] : history_.works.all()) {
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
    row.gives_gradient = work.gives_gradient();
  }
  return table;
}

FlatSet<PeerId> ReplicaHost::awaited() const {
  FlatSet<PeerId> peers = history_.works.awaited();
  for (const auto& [stage, replica] : history_.replicas) {
    replica.add_awaited(peers, history_.commit_log.committed());
  }
  erase_if(peers, [this](PeerId peer) { return !alive(peer); });
  return peers;
}

std::string ReplicaHost::activity() const {
  if (running_) return running_->name.text();
  for (const auto& [stage, replica] : history_.replicas) {
    if (std::string text = replica.waiting_for(); !text.empty()) return text;
  }
  return fmt::format("microbatches ({}, {} updates)", history_.works.text(),
                     history_.updates_due.size());
}

std::string ReplicaHost::left_over() const {
  const Step committed = history_.commit_log.committed();
  if (std::string work = history_.works.left_over(committed); !work.empty()) return work;
  if (std::string fact = history_.facts.left_over(committed); !fact.empty()) return fact;
  for (const auto& [id, work] : history_.works.all()) {
    if (!serves_or_learns(id.stage)) return "a microbatch of a stage that was left";
  }
  if (history_.requests.has([this](StageId stage) { return !serves_or_learns(stage); })) {
    return "a learner's fetch from a stage that was left";
  }
  const bool sums = std::any_of(history_.replicas.begin(), history_.replicas.end(),
                                [](const auto& entry) { return entry.second.has_left_over(); });
  return sums ? "sums of an applied step" : "";
}

}  // namespace swarmpi
