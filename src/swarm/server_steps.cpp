// What a server does once a step has all its microbatches: freeze for the seal, reduce with the
// other replicas, apply the commit, store for a checkpoint.

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/text.hpp"
#include "swarm/server.hpp"

namespace swarmpi {

// ---- Seal

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
      begin_reduction(message, stage, state);
    }
  }
}

// ---- Reduction

void Server::begin_reduction(const SealMessage& seal, StageId stage, Served& state) {
  ReductionPlan plan;
  plan.seal = seal.seal;
  plan.step = seal.step;
  plan.stage = stage;
  plan.self = self_;
  plan.replicas = view_.replicas(stage);
  const auto replicas = static_cast<std::int64_t>(plan.replicas.size());
  plan.chunks = cut_into_chunks(state.blocks, replicas, plan_.reduction_chunk_elements);
  plan.pattern = plan_.reduction_pattern.value_or(
      reduction_pattern(replicas, static_cast<std::int64_t>(plan.chunks.size())));
  plan.exponents = exponents_.at(seal.step);
  plan.tokens = plan_.tokens_per_step();
  Reduction& reduction = state.reductions.try_emplace(seal.seal, std::move(plan)).first->second;
  for (const auto& [from, share] : state.early_shares[seal.seal]) reduction.receive(share, from);
  state.early_shares.erase(seal.seal);
}

Reduction* Server::find_reduction(StageId stage, const SealId& seal) {
  auto& reductions = served(stage).reductions;
  const auto found = reductions.find(seal);
  return found == reductions.end() ? nullptr : &found->second;
}

// A share of a replica that heard of the seal first waits for it here.
void Server::receive(const ShareMessage& message, PeerId from) {
  if (Reduction* reduction = find_reduction(message.stage, message.seal)) {
    return reduction->receive(message, from);
  }
  Served& state = served(message.stage);
  if (state.sealed && message.seal <= *state.sealed) return;  // sent twice
  state.early_shares[message.seal].emplace_back(from, message);
}

void Server::receive(const ChunkMessage& message, PeerId) {
  if (Reduction* reduction = find_reduction(message.stage, message.seal)) {
    reduction->receive(message, outbox_);
  }
}

// A stage has one reduced gradient: with delayed updates the next step's waits until this one's is
// applied.
std::optional<Job> Server::next_reduction_job() {
  for (auto& [stage, state] : served_) {
    for (auto& [seal, reduction] : state.reductions) {
      if (state.applied.next() != reduction.step()) continue;
      if (auto job = reduction.next_job()) return job;
    }
  }
  return std::nullopt;
}

void Server::handle(const ShareResult& result, double) {
  find_reduction(result.stage, result.seal)->finished(result, outbox_);
}

void Server::handle(const ReduceResult& result, double) {
  Reduction& reduction = *find_reduction(result.stage, result.seal);
  reduction.finished(result, outbox_);
  acknowledge_if_complete(result.stage, reduction);
}

void Server::handle(const PlaceResult& result, double) {
  Reduction& reduction = *find_reduction(result.stage, result.seal);
  reduction.finished(result);
  acknowledge_if_complete(result.stage, reduction);
}

void Server::acknowledge_if_complete(StageId stage, const Reduction& reduction) {
  if (!reduction.complete()) return;
  Served& state = served(stage);
  state.use.bytes_sent += reduction.bytes_sent();
  state.use.bytes_received += reduction.bytes_received();
  const std::size_t tensors = plan_.stage_tensors.at(static_cast<std::size_t>(stage.value)).size();
  outbox_.send(view_.leader(),
               ReducedMessage{reduction.seal(), stage,
                              sum_by_tensor(state.blocks, reduction.squares(), tensors)});
}

bool Server::reducing() const {
  for (const auto& [stage, state] : served_) {
    for (const auto& [seal, reduction] : state.reductions) {
      if (!reduction.complete()) return true;
    }
  }
  return false;
}

// ---- Commit

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

void Server::handle(const ApplyResult& result, double) {
  Served& state = served(result.stage);
  state.applied = result.step;
  state.accumulators.erase(state.accumulators.begin(), state.accumulators.upper_bound(result.step));
  std::erase_if(state.reductions, [&](const auto& r) {
    if (r.second.step() > result.step) return false;
    state.sealed = std::max(state.sealed, std::optional(r.first));
    return true;
  });
  report_.hashes.push_back({result.step, result.stage, result.tensor_hashes});

  PeerRow use = std::exchange(state.use, {});
  use.step = result.step.value;
  use.peer = self_.value;
  use.stage = result.stage.value;
  // A peer of several stages waits for them all: its waiting stands with the first.
  use.idle_s = std::exchange(idle_s_, 0.0);
  use.communication_s = std::exchange(communication_s_, 0.0);
  if (const auto samples = std::exchange(state.queue_samples, 0); samples > 0) {
    use.queue /= static_cast<double>(samples);
  }
  report_.uses.push_back({use});
}

// ---- Checkpoint

void Server::receive(const CheckpointMessage& message, PeerId) {
  Served& state = served(message.stage);
  if (state.asked_to_store >= message.step) return;  // sent twice
  SWARMPI_CHECK(state.applied == message.step, "a checkpoint is asked for before the next commit");
  state.asked_to_store = message.step;
  state.storing = true;
  outbox_.act(StoreStage{message.step, message.stage, view_.number.term});
}

void Server::stored(const StageStored& part) {
  served(part.stage).storing = false;
  outbox_.send(view_.leader(),
               StageStoredMessage{part.step, part.stage, part.file, part.tensor_hashes});
}

}  // namespace swarmpi
