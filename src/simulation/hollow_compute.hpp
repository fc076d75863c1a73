#pragma once
// The jobs of a peer that computes nothing: it keeps the books that the protocol relies on (which
// step its stages stand at, which microbatches are in which sum) and answers with payloads of the
// right size that hold no memory. All else that jobs answer (losses, hashes, exponents, squares)
// are numbers keyed by what they are of, so that all replicas say the same.

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "core/cover.hpp"
#include "core/records.hpp"
#include "model/boundary.hpp"
#include "protocol/run_plan.hpp"
#include "simulation/models.hpp"

namespace swarmpi {

/// What the hollow computes of one run have in common.
class HollowModel {
 public:
  /// The plan outlives it.
  HollowModel(const Config& config, const RunPlan& plan);

  const RunPlan& plan() const { return plan_; }
  const BoundaryBytes& boundary() const { return boundary_; }
  /// Whether a backward pass computes the activations of its stage again.
  bool recomputes() const { return recomputes_; }
  std::size_t tensors(StageId stage) const { return of(stage).tensors.size(); }
  std::int64_t elements(StageId stage, const BlockRange& blocks) const;
  std::int64_t elements(StageId stage) const;

  /// Of a chunk's sums over so many microbatches, packed to the bits in use.
  PayloadRef packed_sums(StageId stage, const BlockRange& blocks, std::int64_t microbatches);
  /// fp32.
  PayloadRef floats(StageId stage, const BlockRange& blocks);
  /// All versions of the weights, and the moments.
  PayloadRef state(StageId stage, const BlockRange& blocks);
  /// Of so many bytes; the same one each time.
  PayloadRef payload(std::int64_t size_bytes);

  double loss_nats(const MicrobatchId& microbatch) const;
  std::vector<kernels::Contribution> contributions(StageId stage) const;
  /// Of the blocks' reduced gradient after a step: one square a block, and the hash.
  std::vector<double> squares(const BlockRange& blocks) const;
  std::uint64_t gradient_hash(StageId stage, Step step, const BlockRange& blocks) const;
  /// Of the state after a step: of each tensor of the stage, or of some blocks.
  std::vector<std::uint64_t> tensor_hashes(StageId stage, Step step) const;
  std::uint64_t state_hash(StageId stage, Step step, const BlockRange& blocks) const;
  std::uint64_t weight_hash(StageId stage, Step step, const BlockRange& blocks) const;

 private:
  struct Stage {
    std::vector<std::int32_t> tensors;
    std::vector<std::int64_t> elements_before;  // of each block, and of all
  };
  const Stage& of(StageId stage) const { return stages_[static_cast<std::size_t>(stage.value)]; }
  std::uint64_t key(int what, std::int64_t a, std::int64_t b = 0, std::int64_t c = 0) const;

  const RunPlan& plan_;
  BoundaryBytes boundary_;
  bool recomputes_;
  std::vector<Stage> stages_;
  std::unordered_map<std::int64_t, PayloadRef> payloads_;  // by size; looked up only
};

class HollowCompute final : public VirtualCompute {
 public:
  /// Serves any stage from `resume.step` on. The model outlives this.
  HollowCompute(PeerId self, HollowModel& model, const ResumeState& resume)
      : self_(self), model_(model), resumed_(resume.step) {}

  PeerId self() const { return self_; }
  Result<JobResult> execute(const Job& job) override;
  Result<StageStored> save(Step step, StageId stage) override;
  Status load(StageId stage, const ResumeState& state, const Ownership& ownership) override;

 private:
  struct Stage {
    std::int64_t applied = -1;
    std::vector<std::pair<Step, Cover>> covers;  // of the sums of open steps
  };

  Stage& stage(StageId id);
  Status error(const std::string& what) const;
  Status check_weights(const WorkId& work);
  Cover cover_of(StageId stage, Step step, const std::vector<PartialSums>& addends);

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
  HollowModel& model_;
  std::int64_t resumed_;
  std::map<StageId, Stage> stages_;
};

}  // namespace swarmpi
