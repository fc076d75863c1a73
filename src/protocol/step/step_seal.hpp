#pragma once
// How stages of a step are sealed, as the leader decides it, and what each peer hears of that.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "protocol/step/ledger.hpp"

namespace swarmpi {

/// A chunk of the reduced gradient that was finished under an earlier seal: it is a fact.
struct ChunkFact {
  std::int32_t chunk = 0;
  PeerId from;             // has it, and sends it
  std::vector<PeerId> to;  // lack it
};

/// Who has which finished chunks.
using ChunkHolders = std::map<std::int32_t, std::set<PeerId>>;

/// Who sends these chunks to those of `wanted_by` that lack them: all who have any about as many,
/// as far as what they have lets them. By chunk; one that nobody lacks is there too, and no holder
/// of a chunk is named twice. REQUIRES: each chunk has a holder.
std::vector<ChunkFact> deal_out(const ChunkHolders& holders, const std::vector<PeerId>& wanted_by);

/// One stage that is sealed.
struct SealedStage {
  StageId stage;
  SealId seal;
  std::vector<PeerId> replicas;     // by id
  std::vector<PeerId> learners;     // by id; get the reduced gradient too
  std::vector<SealShare> shares;    // by peer
  std::int64_t chunk_replicas = 0;  // replicas that the chunks were cut for
  std::int64_t chunks = 0;          // how many these are
  std::vector<ChunkFact> finished;  // by chunk
  std::int64_t attempt = 0;         // reductions before this one that are not trusted
  /// The replicas add up by the collective of this view; nothing: point to point.
  std::optional<ViewNumber> collective = {};
};

/// The stages of a step that are sealed, or sealed anew, in one view.
class StepSeal {
 public:
  StepSeal(Step step, bool skipped, std::shared_ptr<const StepFacts> facts)
      : step_(step), skipped_(skipped), facts_(std::move(facts)) {}

  void add(SealedStage stage);
  bool empty() const { return stages_.empty(); }
  bool skipped() const { return skipped_; }
  const std::shared_ptr<const StepFacts>& facts() const { return facts_; }
  const std::vector<SealedStage>& stages() const { return stages_; }

  /// What this peer is told: the facts, and of the stages that it serves or learns its own part.
  SealMessage message_for(PeerId peer) const;

 private:
  StageSeal part_of(PeerId peer, std::size_t index) const;

  Step step_;
  bool skipped_;
  std::shared_ptr<const StepFacts> facts_;
  std::vector<SealedStage> stages_;
  // Of each of these: who is sent finished chunks, and by whom.
  std::vector<std::map<PeerId, std::set<PeerId>>> senders_;
};

}  // namespace swarmpi
