// How a leader seals the stages of a complete step, and seals them anew when a replica has died.

#include <algorithm>

#include "core/check.hpp"
#include "swarm/leader.hpp"
#include "swarm/rules.hpp"

namespace swarmpi {

void Leader::seal_complete_steps() {
  for (auto& [step, open] : open_) {
    if (plan_.train_microbatches(step) == 0) continue;
    if (!open.facts) {
      if (!open.ledger.complete()) continue;
      open.facts = open.ledger.facts();
      open.ledger.note(open.facts);
      open.sealed_at_s = now_s_;
    }
    SealMessage message{step, {}, step.value == 0 || !open.facts->flagged.empty(), open.facts};
    for (auto& [stage, sealed] : open.stages) {
      if (sealed.seal || !open.ledger.covered(stage) || reduced_by_all(open, stage)) continue;
      sealed.seal = SealId{Incarnation(chronicle_.state().incarnation), term_, next_seal_++};
      sealed.replicas = view_.replicas(stage);
      sealed.learners = view_.learners_of(stage);
      sealed.sources.clear();
      sealed.reduced_at_s.reset();
      const std::vector<ChunkFact> facts = chunk_facts(stage, sealed);
      for (const ChunkFact& fact : facts) sealed.sources.insert(fact.from);
      if (sealed.cut_for == 0 || !holds(Rule::keep_the_cut)) {
        sealed.cut_for = static_cast<std::int64_t>(sealed.replicas.size());
      }
      message.stages.push_back({stage, *sealed.seal, sealed.replicas, open.ledger.shares(stage),
                                sealed.cut_for, facts, sealed.learners});
    }
    if (message.stages.empty()) continue;
    for (const auto& [peer, stages] : view_.members) {
      if (!stages.empty() || view_.learners.contains(peer)) outbox_.send(peer, message);
    }
  }
}

std::vector<ChunkFact> Leader::chunk_facts(StageId stage, const SealedStage& sealed) const {
  std::vector<ChunkFact> facts;
  if (!holds(Rule::chunks_are_facts)) return facts;
  for (const auto& [chunk, holders] : sealed.holders) {
    ChunkFact fact{chunk, *holders.begin(), {}};
    for (const auto& peers : {sealed.replicas, view_.learners_of(stage)}) {
      for (const PeerId peer : peers) {
        if (!holders.contains(peer)) fact.to.push_back(peer);
      }
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

// ---- After a death

// A seal that names a dead replica, or that a dead leader made, is replaced. Chunks that are
// finished stay so; for the others the share of the dead peer is needed again, if it had one.
void Leader::mend_seals(Step step, OpenStep& open) {
  if (!open.facts) return;
  const bool skipped = step.value == 0 || !open.facts->flagged.empty();
  for (auto& [stage, sealed] : open.stages) {
    learn_chunks(stage, step, sealed);
    const auto finished = static_cast<std::int64_t>(sealed.holders.size());
    const bool reduced = sealed.cut_for > 0 && finished == chunks_of(stage, sealed.cut_for);
    open.ledger.settle(stage, skipped || reduced);
    const bool stays = stands(stage, sealed) || !holds(Rule::void_seals_of_the_dead);
    if (sealed.seal && stays) continue;
    sealed.seal.reset();
    if (open.ledger.covered(stage) || !holds(Rule::reopen)) continue;
    for (const PeerId peer : view_.replicas(stage)) outbox_.send(peer, ReopenMessage{step, stage});
  }
}

// All whom it needs are there, and all who serve now are named.
bool Leader::stands(StageId stage, const SealedStage& sealed) const {
  const std::vector<PeerId> replicas = view_.replicas(stage);
  const auto there = [&](PeerId peer) {
    if (!holds(Rule::void_seals_of_the_left)) return view_.members.contains(peer);
    return view_.serves(peer, stage) || learns(peer, stage);
  };
  const auto named = [&](PeerId peer) {
    const auto in = [&](const std::vector<PeerId>& peers) {
      return std::find(peers.begin(), peers.end(), peer) != peers.end();
    };
    return in(sealed.replicas) || in(sealed.learners);
  };
  return std::all_of(sealed.replicas.begin(), sealed.replicas.end(), there) &&
         std::all_of(sealed.sources.begin(), sealed.sources.end(), there) &&
         std::all_of(replicas.begin(), replicas.end(), named);
}

void Leader::learn_chunks(StageId stage, Step step, SealedStage& sealed) const {
  sealed.holders.clear();
  for (const auto& [peer, table] : tables_) {
    for (const StageRow& row : table.stages) {
      if (row.stage != stage || row.step != step || row.cut_for == 0) continue;
      SWARMPI_CHECK(sealed.cut_for == 0 || sealed.cut_for == row.cut_for,
                    "a step keeps its chunks over its seals");
      sealed.cut_for = row.cut_for;
      for (const std::int32_t chunk : row.chunks) sealed.holders[chunk].insert(peer);
    }
  }
}

std::int64_t Leader::chunks_of(StageId stage, std::int64_t cut_for) const {
  const std::vector<Block> blocks = cut_into_blocks(plan_.elements_in(stage));
  return static_cast<std::int64_t>(
      cut_into_chunks(blocks, cut_for, plan_.reduction_chunk_elements).size());
}

}  // namespace swarmpi
