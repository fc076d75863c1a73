#include "protocol/replica/stage_replica.hpp"

#include <fmt/core.h>

#include <utility>

#include "core/check.hpp"
#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/commit.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

StageReplica::StageReplica(const RunPlan& plan, PeerId self, StageId stage, Step applied)
    : plan_(plan), self_(self), stage_(stage), blocks_(plan.blocks_of(stage)), applied_(applied) {}

// ---- Mode

void StageReplica::loaded() {
  if (loading()) mode_ = Serving{};
}

void StageReplica::learn(Step committed) {
  applied_ = committed;
  forget_steps();
  mode_ = Learning(plan_, stage_, *blocks_, committed);
}

// ---- Sums

StageReplica::Accumulator& StageReplica::accumulator(Step step) {
  const auto [entry, is_new] = accumulators_.try_emplace(step);
  if (is_new) {
    entry->second.microbatches = Bitmap(plan_.train_microbatches(step));
    entry->second.tensors.resize(
        plan_.stage_tensors.at(static_cast<std::size_t>(stage_.value)).size());
  }
  return entry->second;
}

bool StageReplica::weights_ready(Step step) const {
  return !loading() && applied_.value >= plan_.starts_after(step);
}

bool StageReplica::contributed(const MicrobatchId& id) const {
  if (id.purpose != Purpose::train) return false;
  const auto own = accumulators_.find(id.step);
  return own != accumulators_.end() && own->second.microbatches.contains(id.index);
}

// A frozen accumulator takes nothing more: a microbatch that it lacks waits until the stage is
// reopened.
bool StageReplica::takes(const MicrobatchId& id) {
  if (!weights_ready(id.step)) return false;
  const Accumulator& own = accumulator(id.step);
  return !own.frozen || own.settled || own.microbatches.contains(id.index);
}

bool StageReplica::adds(const MicrobatchId& id) {
  const Accumulator& own = accumulator(id.step);
  return !own.settled && !own.microbatches.contains(id.index);
}

bool StageReplica::add(const BackwardResult& result) {
  const MicrobatchId& id = result.work.microbatch;
  Accumulator& own = accumulator(id.step);
  SWARMPI_CHECK(!own.frozen || own.settled, "a frozen accumulator takes nothing more");
  own.microbatches.insert(id.index);
  const auto same = [](const kernels::Contribution& a, const kernels::Contribution& b) {
    return a.exponent == b.exponent && a.nonfinite == b.nonfinite && a.overflow == b.overflow;
  };
  bool is_news = false;
  for (std::size_t i = 0; i < own.tensors.size(); ++i) {
    const kernels::Contribution before = own.tensors[i];
    own.tensors[i].merge(result.contributions[i]);
    is_news = is_news || !same(own.tensors[i], before);
  }
  return is_news;
}

bool StageReplica::lacks(const MicrobatchId& id) {
  if (contributed(id)) return false;
  Accumulator& own = accumulator(id.step);
  if (own.settled) own.not_added = id;
  return !own.settled;
}

// ---- Seal

std::optional<SealRefused> StageReplica::refusal(const SealMessage& message, const StageSeal& seal,
                                                 bool learns) {
  const Accumulator& own = accumulator(message.step);
  const Bitmap none(plan_.train_microbatches(message.step));
  const Bitmap& share = seal.microbatches.size() > 0 ? seal.microbatches : none;
  if (learns || message.skipped || own.microbatches == share) return std::nullopt;
  // Where nothing is summed any more, it does not matter what is in the sums.
  const auto finished = static_cast<std::size_t>(seal.finished_chunks.count());
  if (finished >= chunks_of(seal).chunks.size()) return std::nullopt;
  return SealRefused{seal.seal, message.step, stage_, own.microbatches};
}

// Most steps are sealed for as many replicas as the last one was.
const OwnedChunks& StageReplica::chunks_of(const StageSeal& seal) {
  if (!cut_ || cut_->first != seal.chunk_replicas) {
    cut_.emplace(seal.chunk_replicas, plan_.cut_for(seal.chunk_replicas, *blocks_));
  }
  return cut_->second;
}

std::optional<ReductionAnswer> StageReplica::freeze(
    const SealMessage& message, const StageSeal& seal,
    const std::shared_ptr<const Exponents>& exponents, Outbox& outbox) {
  Accumulator& own = accumulator(message.step);
  own.frozen = true;
  newest_seal_ = seal.seal;
  if (message.skipped) return acknowledge({message.step, stage_, seal.attempt, {}});
  Reduction& reduction = begin_reduction(message.step, seal, exponents, outbox);
  const auto finished = static_cast<std::size_t>(seal.finished_chunks.count());
  if (finished == reduction.chunks()) own.settled = true;
  return answer_of(reduction);
}

std::optional<MicrobatchId> StageReplica::reopen(Step step) {
  Accumulator& own = accumulator(step);
  own.frozen = false;
  own.settled = false;
  const auto reduction = reductions_.find(step);
  if (reduction != reductions_.end()) reduction->second.close();
  return std::exchange(own.not_added, std::nullopt);
}

// ---- Reduction

Reduction& StageReplica::begin_reduction(Step step, const StageSeal& seal,
                                         const std::shared_ptr<const Exponents>& exponents,
                                         Outbox& outbox) {
  ReductionPlan plan;
  plan.seal = seal.seal;
  plan.step = step;
  plan.stage = stage_;
  plan.self = self_;
  plan.replicas = seal.replicas;
  plan.learners = seal.learners;
  plan.chunk_replicas = seal.chunk_replicas;
  plan.finished_chunks = seal.finished_chunks;
  plan.to_send = seal.to_send;
  plan.senders = seal.senders;
  const OwnedChunks& cut = chunks_of(seal);
  plan.chunks = cut.chunks;
  plan.owners = cut.owners;
  plan.pattern = plan_.torture_only.reduction_pattern.value_or(
      reduction_pattern(static_cast<std::int64_t>(plan.replicas.size()),
                        static_cast<std::int64_t>(plan.chunks.size())));
  plan.exponents = exponents;
  plan.tokens = plan_.tokens_per_step();
  plan.attempt = seal.attempt;
  plan.collective = seal.collective;
  plan.all = Cover::of_step(step, plan_.train_microbatches(step));
  const auto before = reductions_.find(step);
  const bool goes_on = before != reductions_.end() && before->second.attempt() == seal.attempt;
  if (!goes_on) {
    reduced_.erase(step);
    accumulator(step).settled = false;
  }
  Reduction next(std::move(plan), goes_on ? &before->second : nullptr);
  Reduction& reduction = reductions_.insert_or_assign(step, std::move(next)).first->second;
  reduction.tell_finished(outbox);
  const auto messages = std::move(awaiting_seal_[seal.seal]);
  awaiting_seal_.erase(awaiting_seal_.begin(), awaiting_seal_.upper_bound(seal.seal));
  for (const auto& [peer, message] : messages) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { static_cast<void>(receive(m, from, outbox)); }, message);
  }
  return reduction;
}

Reduction* StageReplica::find_reduction(const SealId& seal) {
  for (auto& [step, reduction] : reductions_) {
    if (reduction.seal() == seal && !reduction.closed()) return &reduction;
  }
  return nullptr;
}

void StageReplica::receive(const ShareMessage& message, PeerId from, Outbox&) {
  Reduction* reduction = find_reduction(message.seal);
  if (reduction == nullptr) return await_seal(message, from);
  reduction->receive(message, from);
}

std::optional<ReductionAnswer> StageReplica::receive(const ChunkMessage& message, PeerId from,
                                                     Outbox& outbox) {
  Reduction* reduction = find_reduction(message.seal);
  if (reduction == nullptr) {
    await_seal(message, from);
    return std::nullopt;
  }
  const bool was_complete = reduction->complete();
  reduction->receive(message, outbox);
  if (reduction->complete() && !was_complete) return answer_of(*reduction);
  return reduction->take_refused();
}

template <class Message>
void StageReplica::await_seal(const Message& message, PeerId from) {
  if (knows(message.seal)) return;  // that seal is void
  awaiting_seal_[message.seal].emplace_back(from, message);
}

// A stage has memory for one reduced gradient: with delayed updates the reduction of the next step
// waits until this step is applied.
std::optional<Job> StageReplica::next_reduction_job() {
  const auto found = reductions_.find(applied_.next());
  if (found == reductions_.end() || found->second.closed() || !ready()) return std::nullopt;
  return found->second.next_job();
}

template <class Result>
std::optional<ReductionAnswer> StageReplica::finished(const Result& result, Outbox& outbox) {
  Reduction* reduction = find_reduction(result.seal);
  if (reduction == nullptr) return std::nullopt;
  if constexpr (std::is_same_v<Result, PlaceResult>) {
    reduction->finished(result);
  } else {
    reduction->finished(result, outbox);
  }
  constexpr bool kFillsAPlace =
      std::is_same_v<Result, PlaceResult> || std::is_same_v<Result, ReduceResult>;
  return kFillsAPlace ? answer_of(*reduction) : std::nullopt;
}
template std::optional<ReductionAnswer> StageReplica::finished(const ShareResult&, Outbox&);
template std::optional<ReductionAnswer> StageReplica::finished(const ReduceResult&, Outbox&);
template std::optional<ReductionAnswer> StageReplica::finished(const PlaceResult&, Outbox&);
template std::optional<ReductionAnswer> StageReplica::finished(const GatherResult&, Outbox&);

// There is one `out`: the sums of a step are entered when those before have been taken from it.
void StageReplica::mind_collective(CollectiveWay* way, Outbox& outbox) {
  for (auto& [step, reduction] : reductions_) {
    if (!reduction.by_collective() || reduction.closed() || reduction.complete()) continue;
    const ViewNumber& view = *reduction.plan().collective;
    if (way == nullptr || !way->lives(view)) reduction.collective_is_over();
    const bool is_next = step == applied_.next() && ready();
    if (way != nullptr) {
      way->consider({view, step, reduction.seal(), reduction.attempt()}, is_next, outbox);
    }
  }
}

std::optional<ReductionAnswer> StageReplica::collective_is_done(const CollectiveDone& done) {
  Reduction* reduction = find_reduction(done.seal);
  if (reduction == nullptr || !reduction->by_collective()) return std::nullopt;
  reduction->collective_is_done(done.cover);
  return reduction->take_refused();
}

std::optional<ReductionAnswer> StageReplica::answer_of(Reduction& reduction) {
  if (const auto miscounted = reduction.take_refused()) return miscounted;
  if (!reduction.complete()) return std::nullopt;
  use_.bytes_sent += reduction.bytes_sent();
  use_.bytes_received += reduction.bytes_received();
  const std::size_t tensors = plan_.stage_tensors.at(static_cast<std::size_t>(stage_.value)).size();
  GradientFacts gradient{
      sum_by_tensor(*blocks_, reduction.squares(), tensors), reduction.hash(), {}};
  if (reduction.attempt() > 0) gradient.chunk_hashes = reduction.chunk_hashes();
  return acknowledge({reduction.step(), stage_, reduction.attempt(), std::move(gradient)});
}

// The reduced gradient is here, or not wanted: the sums are settled.
ReducedMessage StageReplica::acknowledge(ReducedMessage message) {
  accumulator(message.step).settled = true;
  reduced_[message.step] = message;
  return message;
}

bool StageReplica::reducing() const {
  if (gather_ && !gather_->complete()) return true;
  return std::any_of(reductions_.begin(), reductions_.end(), [](const auto& entry) {
    return !entry.second.closed() && !entry.second.complete();
  });
}

// ---- Update

std::optional<Job> StageReplica::update(const CommitRef& record) {
  if (!ready() || record->step != applied_.next()) return std::nullopt;
  if (plan_.swarm.has_owners() && !record->skipped) {
    if (!gather_ || gather_->record() != record) begin_gather(record);
    if (auto job = gather_->next_job()) return job;
    if (!gather_->complete()) return std::nullopt;
  }
  ApplyJob job{stage_, record, {}};
  if (Learning* const learner = learning()) {
    const auto reduction = reductions_.find(record->step);
    const bool has_gradient =
        record->skipped || (reduction != reductions_.end() && reduction->second.complete());
    if (!learner->may_update(*record, has_gradient)) return std::nullopt;
    job.partial = learner->begin_update(record, has_gradient);
  }
  return job;
}

void StageReplica::begin_gather(const CommitRef& record) {
  const auto reduction = reductions_.find(record->step);
  SWARMPI_CHECK(reduction != reductions_.end(), "what is committed was reduced here");
  gather_.emplace(reduction->second.plan(), record);
  for (const auto& [peer, message] : std::exchange(early_weights_, {})) receive(message, peer);
}

std::optional<Job> StageReplica::next_copy_job() {
  const bool done = gather_ && gather_->record()->step <= applied_;
  return done ? gather_->next_job() : std::nullopt;
}

void StageReplica::receive(const WeightsMessage& message, PeerId from) {
  if (message.step <= applied_) return;
  if (gather_ && gather_->record()->step == message.step) return gather_->receive(message, from);
  early_weights_.emplace_back(from, message);
}

void StageReplica::receive(const WeightsPlaced& message, PeerId from) {
  if (gather_ && gather_->record()->step == message.step) gather_->receive(message, from);
}

void StageReplica::finished(const WeightsResult& result, Outbox& outbox) {
  gather_->finished(result, outbox);
}

Status StageReplica::finished(const PlaceWeightsResult& result, Outbox& outbox) {
  return gather_->finished(result, outbox);
}

void StageReplica::updated(const ApplyResult& result) {
  if (gather_ && gather_->record()->step == result.step) {
    use_.bytes_sent += gather_->bytes_sent();
    use_.bytes_received += gather_->bytes_received();
  }

  applied_ = result.step;
  if (Learning* const learner = learning()) learner->updated(result);
  stored_.reset();
  forget_steps();
}

void StageReplica::forget_steps() {
  accumulators_.erase(accumulators_.begin(), accumulators_.upper_bound(applied_));
  reductions_.erase(reductions_.begin(), reductions_.upper_bound(applied_));
  reduced_.erase(reduced_.begin(), reduced_.upper_bound(applied_));
}

Step StageReplica::reachable_step() const {
  Step step = applied_;
  while (reduced_.contains(step.next())) step = step.next();
  return step;
}

// ---- What it did for the open step

void StageReplica::sample_queue(std::size_t passes_due) {
  use_.queue += static_cast<double>(passes_due);
  ++queue_samples_;
}

PeerRow StageReplica::take_use(Step step) {
  PeerRow use = std::exchange(use_, {});
  use.step = step.value;
  use.peer = self_.value;
  use.stage = stage_.value;
  if (const auto samples = std::exchange(queue_samples_, 0); samples > 0) {
    use.queue /= static_cast<double>(samples);
  }
  return use;
}

// ---- What others are told

void StageReplica::fill(TableMessage& table, Step committed) const {
  for (const auto& [step, own] : accumulators_) {
    if (step > committed) table.stages.push_back(row(step, own));
  }
  if (learning() != nullptr && learning()->complete()) {
    // Of what is reduced here and not applied yet nobody knows the hashes.
    const Step step = reachable_step();
    table.learned.push_back(
        {stage_, step, step == applied_ ? learning()->hashes() : std::vector<std::uint64_t>()});
  }
  for (const auto& [step, reduced] : reduced_) {
    if (step > committed) table.reduced.push_back(reduced);
  }
}

StageRow StageReplica::row(Step step, const Accumulator& own) const {
  StageRow row{step, stage_, own.microbatches, own.tensors, 0, {}, 0};
  const auto reduction = reductions_.find(step);
  if (reduction != reductions_.end()) {
    row.chunk_replicas = reduction->second.chunk_replicas();
    row.chunks = reduction->second.chunks_in_place();
    row.attempt = reduction->second.attempt();
  }
  return row;
}

void StageReplica::add_awaited(FlatSet<PeerId>& peers, Step committed) const {
  const auto add = [&peers](const auto& more) { peers.insert(more.begin(), more.end()); };
  for (const auto& [step, reduction] : reductions_) {
    // Until the commit: a reduction that is complete here may still lack something at others.
    if (reduction.closed() || step <= committed) continue;
    add(reduction.partners());
  }
  if (gather_) add(gather_->awaited());
  if (learning() != nullptr) add(learning()->asked());
}

std::string StageReplica::waiting_for() const {
  if (gather_) {
    if (std::string weights = gather_->waiting_for(); !weights.empty()) return weights;
  }
  for (const auto& [step, reduction] : reductions_) {
    if (reduction.closed()) continue;
    if (!reduction.complete()) return reduction.waiting_for();
    return fmt::format("the commit of step {} by the leader", step.value);
  }
  return "";
}

bool StageReplica::has_left_over() const {
  const auto is_old = [&](const auto& by_step) {
    return !by_step.empty() && by_step.begin()->first <= applied_;
  };
  const bool early = std::any_of(early_weights_.begin(), early_weights_.end(),
                                 [&](const auto& came) { return came.second.step <= applied_; });
  return early || is_old(accumulators_) || is_old(reductions_) || is_old(reduced_);
}

}  // namespace swarmpi
