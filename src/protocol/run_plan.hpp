#pragma once
// What the protocol must know of the run: counts and rules, no data and no kernels.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "hardware/preemption_trace.hpp"
#include "protocol/membership/room.hpp"
#include "protocol/reduction/chunks.hpp"

namespace swarmpi {

/// A peer is to serve another stage instead of its own.
struct Move {
  Step after;  ///< once this step is committed
  PeerId peer;
  StageId to;
};

/// Within this time a signal to mpirun has reached all ranks.
inline constexpr double kNoticesTogetherS = 1;

/// What torture alone sets: every run has these values.
struct TortureOnly {
  double notices_together_s = kNoticesTogetherS;
  double learner_patience_s = 1;                      ///< of a commit for a learner, at least
  std::vector<Move> moves;                            ///< given beforehand
  std::optional<ReductionPattern> reduction_pattern;  ///< none: chosen by replicas and size
  /// At most, unless one block is larger. None: by chunk_elements().
  std::optional<std::int64_t> reduction_chunk_elements;
  std::int64_t piece_elements = 1 << 17;  ///< of state that is learned, unless a block is larger
  /// Of gradients that a learner keeps for pieces under way; with more it applies nothing.
  std::int64_t kept_gradient_bytes = 64 << 20;
  bool checks_counts = false;  ///< after each event a leader's counts are compared with scans
};

/// The same on all peers; made from the deck and the model.
struct RunPlan {
  TrainConfig train;
  SwarmConfig swarm;
  std::vector<FaultAt> faults_at;  ///< only to store their events: emulation injects them
  /// Likewise: those that leave no other trace (stop, continue, cut, heal), in order of time.
  std::vector<TraceEvent> faults_by_clock;
  std::int64_t tokens_per_microbatch = 0;
  std::int64_t validation_microbatches = 0;  ///< of one validation pass
  std::int64_t validation_missing = 0;       ///< tokens of the last of these that count nothing
  std::int64_t validate_every = 0;           ///< steps; 0: never
  std::int64_t checkpoint_every = 0;         ///< steps; 0: not by steps; < 0: never, for benchmarks
  std::int64_t checkpoints_kept = 2;         ///< and so many at most are being written
  double checkpoint_every_s = 0;             ///< 0: not by time
  /// Run time from which on the run stops, as if somebody had asked: by train.max_hours.
  std::optional<double> stops_at_s;
  double between_deaths_s = 0;  ///< mean, of peers that serve; 0: not known. Static pipelines only
  std::int64_t window = 2;      ///< microbatches in flight
  std::vector<std::string> tensor_names;                 ///< of the whole model, by id
  std::vector<std::int64_t> tensor_elements;             ///< of each of these
  std::vector<std::vector<std::int32_t>> stage_tensors;  ///< ids of each stage's tensors, ascending
  std::vector<double> stage_costs;                       ///< FLOPs per token
  MemoryNeeds needs;                                     ///< of peers, by what they serve and learn
  double job_timeout_s = 600;                            ///< then a job is late in any case
  double storage_timeout_s = 120;  ///< then a call of the file system is given up
  /// Of each stage; null where nobody has made them for all peers of this process.
  std::shared_ptr<const std::vector<std::vector<Block>>> stage_blocks = nullptr;
  bool recovers = false;  ///< from deaths; else a death ends the run, which can be resumed
  /// Upper bound on the sent data that a peer keeps for repairs; less where it has no room.
  std::int64_t kept_bytes = 0;
  /// Kept data lies in memory that no budget counts (the host's, not the GPU's).
  bool kept_apart = false;
  TortureOnly torture_only;

  std::int64_t stages() const { return static_cast<std::int64_t>(stage_tensors.size()); }
  std::int64_t tensors() const { return static_cast<std::int64_t>(tensor_names.size()); }
  /// Elements of the tensors of a stage, in tensor order.
  std::vector<std::int64_t> elements_in(StageId stage) const {
    std::vector<std::int64_t> elements;
    for (const std::int32_t id : stage_tensors.at(static_cast<std::size_t>(stage.value))) {
      elements.push_back(tensor_elements.at(static_cast<std::size_t>(id)));
    }
    return elements;
  }
  /// The blocks of a stage: those that all share, or its own.
  std::shared_ptr<const std::vector<Block>> blocks_of(StageId stage) const {
    if (!stage_blocks) {
      return std::make_shared<const std::vector<Block>>(cut_into_blocks(elements_in(stage)));
    }
    return {stage_blocks, &stage_blocks->at(static_cast<std::size_t>(stage.value))};
  }
  /// Makes them, once for all that get a copy of this plan.
  void share_blocks() {
    std::vector<std::vector<Block>> all;
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      all.push_back(cut_into_blocks(elements_in(StageId(stage))));
    }
    stage_blocks = std::make_shared<const std::vector<std::vector<Block>>>(std::move(all));
  }
  /// How the blocks of a stage are cut into chunks for so many replicas; with owners where each
  /// owns a range.
  OwnedChunks cut_for(std::int64_t replicas, const std::vector<Block>& blocks) const {
    const std::optional<std::int64_t>& most = torture_only.reduction_chunk_elements;
    if (swarm.has_owners()) return cut_into_owned_chunks(blocks, replicas, most);
    return {cut_into_chunks(blocks, replicas, most), {}};
  }
  /// How long a stop waits for anything: for the state of the last step, for a part of its
  /// checkpoint, for a disk.
  double stop_patience_s() const { return (swarm.notice_s > 0 ? swarm.notice_s : 30) / 3; }
  std::int64_t delay() const { return train.delay(); }
  std::int64_t tokens_per_step() const { return train.microbatches * tokens_per_microbatch; }

  /// Training microbatches of a step: none in the validation passes after the last step.
  std::int64_t train_microbatches(Step step) const {
    return step.value <= train.steps ? train.microbatches : 0;
  }
  /// The step after which the weights were made that `step` validates: its training uses the same.
  std::int64_t validated_step(Step step) const { return step.value - delay(); }
  /// Validation microbatches that ride on `step`: every validate_every steps, and for the last
  /// weights.
  std::int64_t validation_in(Step step) const {
    const std::int64_t of = validated_step(step);
    const bool due = validate_every > 0 && of >= 0 && of <= train.steps &&
                     (of % validate_every == 0 || of == train.steps);
    return due ? validation_microbatches : 0;
  }
  /// The tokens that a held-out loss is the mean over.
  std::int64_t validation_tokens() const {
    return validation_microbatches * tokens_per_microbatch - validation_missing;
  }
  /// The number of the last step, or of the last validation pass after it.
  std::int64_t last_pass() const { return train.steps + (validate_every > 0 ? delay() : 0); }
  bool checkpoint_due(Step step) const {
    if (checkpoint_every < 0) return false;
    return step.value == train.steps ||
           (checkpoint_every > 0 && step.value > 0 && step.value % checkpoint_every == 0);
  }
  /// The step whose commit must precede the start of `step`; -1 for step 0.
  std::int64_t starts_after(Step step) const {
    if (step.value == 0) return -1;
    return step.value > delay() ? step.value - delay() : 0;
  }
};

}  // namespace swarmpi
