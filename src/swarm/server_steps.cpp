// What a server does once a step has all its microbatches: freeze for the seal, reduce with the
// other replicas, apply the commit, store for a checkpoint.

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/text.hpp"
#include "swarm/rules.hpp"
#include "swarm/server.hpp"

namespace swarmpi {

// ---- Seal

void Server::receive(const SealMessage& message, PeerId from) {
  if (message.step <= chronicle_.committed()) return;
  sealed_facts_[message.step] = message.facts;
  const auto named = [this](const std::vector<PeerId>& peers) {
    return std::find(peers.begin(), peers.end(), self_) != peers.end();
  };
  for (const StageSeal& seal : message.stages) {
    const bool learns = named(seal.learners);
    if (has_left(seal.stage) || (!learns && !named(seal.replicas))) continue;
    Served& state = served(seal.stage);
    if (state.newest_seal && seal.seal <= *state.newest_seal) continue;  // sent twice
    const Accumulator& own = accumulator(seal.stage, message.step);
    Bitmap share(plan_.train_microbatches(message.step));
    for (const SealShare& s : seal.shares) {
      if (s.peer == self_) share = s.microbatches;
    }
    // Where nothing is summed any more it does not matter what is in the sums.
    const bool summed =
        !learns && !message.skipped && seal.facts.size() < chunks_of(state, seal).size();
    if (summed && own.microbatches != share) {
      outbox_.send(from, SealRefused{seal.seal, message.step, seal.stage, own.microbatches});
      continue;
    }
    freeze(message, seal, state);
  }
}

std::vector<BlockRange> Server::chunks_of(const Served& state, const StageSeal& seal) const {
  return cut_into_chunks(state.blocks, seal.cut_for, plan_.reduction_chunk_elements);
}

void Server::freeze(const SealMessage& message, const StageSeal& seal, Served& state) {
  Accumulator& own = accumulator(seal.stage, message.step);
  own.frozen = state.newest_seal = seal.seal;
  if (message.skipped) return acknowledge({message.step, seal.stage, {}});
  begin_reduction(message.step, seal, state);
  const std::size_t chunks = state.reductions.at(message.step).chunks();
  if (seal.facts.size() == chunks) own.settled = true;
}

void Server::receive(const ReopenMessage& message, PeerId) {
  if (message.step <= chronicle_.committed() || has_left(message.stage)) return;
  Served& state = served(message.stage);
  Accumulator& own = accumulator(message.stage, message.step);
  own.frozen.reset();
  own.settled = false;
  if (own.not_added) outbox_.send(view_.leader(), UnableMessage{*own.not_added});
  own.not_added.reset();
  const auto reduction = state.reductions.find(message.step);
  const bool closes = holds(Rule::void_seals_rest) && reduction != state.reductions.end();
  if (closes) reduction->second.close();
}

// ---- Reduction

void Server::begin_reduction(Step step, const StageSeal& seal, Served& state) {
  ReductionPlan plan;
  plan.seal = seal.seal;
  plan.step = step;
  plan.stage = seal.stage;
  plan.self = self_;
  plan.replicas = seal.replicas;
  plan.learners = seal.learners;
  plan.cut_for = seal.cut_for;
  plan.facts = seal.facts;
  const auto replicas = static_cast<std::int64_t>(plan.replicas.size());
  plan.chunks = chunks_of(state, seal);
  plan.pattern = plan_.reduction_pattern.value_or(
      reduction_pattern(replicas, static_cast<std::int64_t>(plan.chunks.size())));
  plan.exponents = chronicle_.exponents(step);
  plan.tokens = plan_.tokens_per_step();
  const auto before = state.reductions.find(step);
  Reduction next(std::move(plan), before == state.reductions.end() ? nullptr : &before->second);
  Reduction& reduction = state.reductions.insert_or_assign(step, std::move(next)).first->second;
  const auto early = std::move(state.early[seal.seal]);
  state.early.erase(state.early.begin(), state.early.upper_bound(seal.seal));
  for (const auto& [peer, message] : early) {
    const PeerId from = peer;
    std::visit([&](const auto& m) { receive(m, from); }, message);
  }
  acknowledge_if_complete(seal.stage, reduction);
}

Reduction* Server::find_reduction(StageId stage, const SealId& seal) {
  for (auto& [step, reduction] : served(stage).reductions) {
    const bool meant = reduction.seal() == seal || !holds(Rule::match_seals);
    if (meant && !reduction.closed()) return &reduction;
  }
  return nullptr;
}

template <class Message>
void Server::await_seal(const Message& message, PeerId from) {
  Served& state = served(message.stage);
  if (state.newest_seal && message.seal <= *state.newest_seal) return;  // it is void
  state.early[message.seal].emplace_back(from, message);
}

void Server::receive(const ShareMessage& message, PeerId from) {
  if (has_left(message.stage)) return;
  Reduction* reduction = find_reduction(message.stage, message.seal);
  if (reduction == nullptr) return await_seal(message, from);
  reduction->receive(message, from);
}

void Server::receive(const ChunkMessage& message, PeerId from) {
  if (has_left(message.stage)) return;
  Reduction* reduction = find_reduction(message.stage, message.seal);
  if (reduction == nullptr) return await_seal(message, from);
  reduction->receive(message, outbox_);
}

// A stage has one reduced gradient: with delayed updates the next step's waits until this one's is
// applied.
std::optional<Job> Server::next_reduction_job() {
  for (auto& [stage, state] : served_) {
    auto found = state.reductions.find(state.applied.next());
    if (!holds(Rule::one_gradient) && !state.reductions.empty()) --(found = state.reductions.end());
    if (found == state.reductions.end() || found->second.closed()) continue;
    if (state.loading) continue;
    if (state.learning && state.learning->room != Learning::Room::ready) continue;
    if (auto job = found->second.next_job()) return job;
  }
  return std::nullopt;
}

void Server::handle(const ShareResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result, outbox_);
  }
}

void Server::handle(const ReduceResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result, outbox_);
    acknowledge_if_complete(result.stage, *reduction);
  }
}

void Server::handle(const PlaceResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result);
    acknowledge_if_complete(result.stage, *reduction);
  }
}

void Server::handle(const GatherResult& result, double) {
  if (Reduction* reduction = find_reduction(result.stage, result.seal)) {
    reduction->finished(result, outbox_);
  }
}

void Server::acknowledge_if_complete(StageId stage, const Reduction& reduction) {
  if (!reduction.complete()) return;
  Served& state = served(stage);
  state.use.bytes_sent += reduction.bytes_sent();
  state.use.bytes_received += reduction.bytes_received();
  const std::size_t tensors = plan_.stage_tensors.at(static_cast<std::size_t>(stage.value)).size();
  acknowledge({reduction.step(), stage, sum_by_tensor(state.blocks, reduction.squares(), tensors)});
}

void Server::acknowledge(ReducedMessage message) {
  accumulator(message.stage, message.step).settled = true;
  served(message.stage).reduced[message.step] = message;
  outbox_.send(view_.leader(), std::move(message));
}

bool Server::reducing() const {
  for (const auto& [stage, state] : served_) {
    for (const auto& [step, reduction] : state.reductions) {
      if (!reduction.closed() && !reduction.complete()) return true;
    }
  }
  return false;
}

// ---- Commit

void Server::receive(const CommitMessage& message, PeerId) {
  chronicle_.written(message.written, message.checkpointed);
  const bool known = message.record->step <= chronicle_.committed();
  if (holds(Rule::commit_once) && known) return;  // sent twice
  const bool follows = message.record->step == chronicle_.committed().next();
  chronicle_.add(message.record);
  // A new leader agrees once more on the state after the last commit that it finds.
  const Step before(chronicle_.committed().value - 1);
  std::erase_if(hashes_, [&](const HashFact& hash) {
    return hash.step <= std::min(chronicle_.rows_written(), before);
  });
  sealed_facts_.erase(sealed_facts_.begin(), sealed_facts_.upper_bound(message.record->step));
  if (holds(Rule::forget_works)) forget_works(message.record->step);
  if (!follows) return learn_from_here();
  for (const auto& [stage, state] : served_) applications_.push_back({stage, message.record, {}});
}

void Server::forget_steps(Step applied, Served& state) {
  state.accumulators.erase(state.accumulators.begin(), state.accumulators.upper_bound(applied));
  state.reductions.erase(state.reductions.begin(), state.reductions.upper_bound(applied));
  state.reduced.erase(state.reduced.begin(), state.reduced.upper_bound(applied));
}

void Server::handle(const ApplyResult& result, double) {
  Served& state = served(result.stage);
  state.applied = result.step;
  if (state.learning) {
    for (std::size_t i = 0; i < result.tensor_hashes.size(); ++i) {
      state.learning->hashes[i] = result.tensor_hashes[i];
    }
    state.learning->here = std::exchange(updated_, {});
    std::erase_if(state.learning->to_write,
                  [&](const auto& entry) { return entry.second.step < state.applied; });
  }
  state.stored.reset();
  forget_steps(result.step, state);
  if (state.learning) {
    fetch(result.stage, state);
    return tell_learned(result.stage, state);
  }
  report_.hashes.push_back({result.step, result.stage, result.tensor_hashes});
  hashes_.push_back(report_.hashes.back());

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

// A new leader may ask for what is being written already, or was.
void Server::receive(const CheckpointMessage& message, PeerId from) {
  if (has_left(message.stage)) return;
  Served& state = served(message.stage);
  if (being_written_.contains(message.stage)) return;
  if (state.stored && state.stored->step == message.step) return stored(*state.stored);
  const bool stands = chronicle_.committed() == message.step && state.applied == message.step;
  if (holds(Rule::save_its_step) && !stands) {
    // Asked in another's stead, too late.
    outbox_.send(from, StageStoredMessage{message.step, message.stage, false, {}, {}});
    return;
  }
  being_written_.insert(message.stage);
  outbox_.act(StoreStage{message.step, message.stage, view_.number.term});
}

void Server::stored(const StageStored& part) {
  being_written_.erase(part.stage);
  const auto state = served_.find(part.stage);
  if (state == served_.end() || state->second.applied != part.step) return;
  state->second.stored = part;
  outbox_.send(view_.leader(),
               StageStoredMessage{part.step, part.stage, true, part.file, part.tensor_hashes});
}

}  // namespace swarmpi
