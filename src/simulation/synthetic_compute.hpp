#pragma once
// The jobs of one peer on a synthetic model. It checks what real kernels rely on: a pass finds the
// weights of its step and the inputs of its microbatch, no gradient is reduced before the one
// before it is applied, and every reduced block is the sum over all microbatches, each counted
// once; where each replica owns a range, an owner updates its own blocks, and a step is applied
// when all weights are here.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/cover.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"
#include "simulation/models.hpp"
#include "simulation/synthetic_model.hpp"

namespace swarmpi {

/// States of tensors that were saved, block by block, by step and tensor.
using SyntheticArchive =
    std::map<Step, std::map<std::int32_t, std::vector<SyntheticModel::BlockState>>>;

/// One of many things of a kind, here or elsewhere, that goes wrong.
struct Mishap {
  std::int64_t left = 0;  ///< until it comes, this one included; 0: never; below: it has come

  /// Whether it is this one.
  bool is_next() {
    if (left <= 0 || --left > 0) return false;
    left = -1;
    return true;
  }
};

/// Memory that is not to be trusted, or not there.
struct SyntheticMishaps {
  Mishap damaged_chunk;  ///< of a reduced gradient, taken over from another peer
  Mishap damaged_piece;  ///< of a state, likewise
  Mishap damaged_sum;    ///< of a reduced gradient, rounded from what a collective has added up
  Mishap refused_stage;  ///< that is to be learned or loaded
};

class SyntheticCompute : public VirtualCompute {
 public:
  /// Serves any stage from `resume.step` on, with the state that the archive holds of it. Plan,
  /// model and archive outlive this.
  /// `mishaps` may be null. `ownership`: what this peer has of the moments at the start.
  SyntheticCompute(PeerId self, const RunPlan& plan, const SyntheticModel& model,
                   const ResumeState& resume, SyntheticArchive& archive,
                   SyntheticMishaps* mishaps = nullptr, const Ownership& ownership = {});

  Result<JobResult> execute(const Job& job) override;
  Result<StageStored> save(Step step, StageId stage) override;
  Status load(StageId stage, const ResumeState& state, const Ownership& ownership) override;

  CollectiveSums sums_for_collective(StageId stage, Step step) override;
  void set_out(StageId stage, const ViewNumber& view, const CollectiveSums& sums) override;

  bool has_room(StageId stage) override;
  bool flip(StageId stage) override;

 protected:
  /// How often a contribution is added. Tests return other numbers than 1, which must be found.
  virtual std::int64_t times_added(const WorkId&) const { return 1; }

 private:
  struct ReducedBlock {
    Step step{-1};  // none yet
    std::uint64_t value = 0;
  };
  struct Stage {
    bool is_learner = false;  // did not serve the stage from the start
    std::int64_t applied = -1;
    std::vector<std::int32_t> tensors;              // ids
    std::vector<Block> blocks;                      // of the stage
    std::vector<std::int64_t> index_in_tensor;      // number of each block within its tensor
    std::vector<SyntheticModel::BlockState> state;  // by block
    std::vector<bool> present;  // by block: false while it is still to be learned
    BlockRange owned;           // whose moments are here
    std::vector<Step> weights;  // by block: the step of its weights, where replicas own ranges
    std::map<Step, std::vector<std::uint64_t>> sums;             // by block
    std::map<Step, Cover> covers;                                // of these
    std::vector<ReducedBlock> gradient;                          // by block
    std::map<Step, std::shared_ptr<const Exponents>> exponents;  // as committed
  };

  Stage& stage(StageId id);
  Stage stage_of(StageId id, const ResumeState& state, const Ownership& ownership) const;
  bool has_owners() const { return plan_.swarm.has_owners(); }
  static bool owns(const Stage& stage, std::size_t block) {
    const auto b = static_cast<std::int64_t>(block);
    return stage.owned.first <= b && b < stage.owned.end;
  }
  StateHash state_hash(const Stage& stage) const;
  Status check_gathered(const Stage& stage, const CommitRecord& record, StageId id) const;
  /// The weights of own blocks.
  Result<JobResult> weights_of(StageId stage, Step step, std::int32_t chunk,
                               const BlockRange& blocks);
  Status check_present(const Stage& stage, StageId id) const;
  Status check_weights(const WorkId& work);
  Status check_exponents(Stage& stage, Step step, const Exponents& exponents) const;
  Status check_activations(const WorkId& work, const PayloadRef& input) const;
  Status check_gradient(const WorkId& work, const PayloadRef& output_gradient) const;
  /// Adds the microbatch to the sums of its step. Returns its contribution to each tensor.
  std::vector<kernels::Contribution> add(Stage& stage, const WorkId& work,
                                         const Exponents& exponents) const;
  /// Of the blocks of the range that are here.
  Status check_reduced(const Stage& stage, const CommitRecord& record, StageId id,
                       const BlockRange& blocks) const;
  std::int32_t tensor_of(const Stage& stage, std::size_t block) const;
  std::vector<std::uint64_t> tensor_hashes(const Stage& stage) const;
  std::uint64_t hash_of(const Stage& stage, const BlockRange& blocks) const;
  /// Applies a step that is not skipped to the blocks that are here. Returns the ratio of each
  /// tensor that is here as a whole; the others have the given ones.
  std::vector<float> update(Stage& stage, const CommitRecord& record,
                            const std::vector<float>& given) const;
  Status catch_up(Stage& stage, const BlockRange& blocks, const MissedUpdate& missed) const;
  Result<PayloadRef> gradient_of(const Stage& stage, const CommitRecord& record,
                                 const BlockRange& blocks) const;
  struct Added {
    std::vector<std::uint64_t> sums;  // by block
    Cover cover;
  };
  /// What a collective has left of these blocks.
  Result<Added> added_by_collective(const Stage& stage, const ReduceJob& job) const;
  Result<Added> add_up(Stage& stage, Step step, const BlockRange& blocks,
                       const std::vector<PartialSums>& addends) const;
  Status wrong_sum_error(const Stage& stage, StageId id, Step step, std::int64_t block,
                         std::uint64_t sum) const;
  std::uint64_t expected_sum(const Stage& stage, Step step, std::int64_t block) const;
  Status error(const std::string& what) const;

  Result<JobResult> run(const ForwardJob& job);
  Result<JobResult> run(const BackwardJob& job);
  Result<JobResult> run(const ShareJob& job);
  Result<JobResult> run(const ReduceJob& job);
  Result<JobResult> run(const PlaceJob& job);
  Result<JobResult> run(const GatherJob& job);
  Result<JobResult> run(const PrepareJob& job);
  Result<JobResult> run(const ReadJob& job);
  Result<JobResult> run(const WriteJob& job);
  Result<JobResult> run(const DropJob& job);
  Result<JobResult> run(const TryJob& job);
  Result<JobResult> run(const ApplyJob& job);
  Result<JobResult> run(const UpdateJob& job);
  Result<JobResult> run(const PlaceWeightsJob& job);
  Result<JobResult> run(const CopyWeightsJob& job);

  PeerId self_;
  const RunPlan& plan_;
  const SyntheticModel& model_;
  const ResumeState resume_;
  SyntheticArchive& archive_;
  SyntheticMishaps* mishaps_;
  Ownership ownership_;
  std::map<StageId, Stage> stages_;
  std::map<std::pair<StageId, ViewNumber>, CollectiveSums> outs_;  // of collectives
};

class SyntheticComputeFactory : public ComputeFactory {
 public:
  explicit SyntheticComputeFactory(const SyntheticModel& model) : model_(model) {}
  std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan,
                                       const InitialMembership& membership,
                                       const ResumeState& resume) override;
  /// A bit of this one of all reduced chunks, or pieces of state, that peers take over from others
  /// flips, counted from 1.
  void damage_chunk(std::int64_t number) { mishaps_.damaged_chunk.left = number; }
  void damage_piece(std::int64_t number) { mishaps_.damaged_piece.left = number; }
  /// Likewise of all that peers round from what a collective has added up.
  void damage_sum(std::int64_t number) { mishaps_.damaged_sum.left = number; }
  /// There is no memory left for this one of all stages that are to be learned or loaded, counted
  /// from 1.
  void refuse_stage(std::int64_t number) { mishaps_.refused_stage.left = number; }
  bool has_damaged() const override {
    return mishaps_.damaged_chunk.left < 0 || mishaps_.damaged_piece.left < 0 ||
           mishaps_.damaged_sum.left < 0;
  }

 protected:
  SyntheticModel model_;
  SyntheticArchive archive_;
  SyntheticMishaps mishaps_;
};

}  // namespace swarmpi
