#pragma once
// The jobs of one peer on a synthetic model. It checks what real kernels rely on: a pass finds the
// weights of its step and the inputs of its microbatch, no gradient is reduced before the one
// before it is applied, and every reduced block is the sum over all microbatches, each counted
// once.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "protocol/run_plan.hpp"
#include "simulation/models.hpp"
#include "simulation/synthetic_model.hpp"

namespace swarmpi {

/// States of tensors that were saved, by step and tensor.
using SyntheticArchive = std::map<Step, std::map<std::int32_t, std::uint64_t>>;

class SyntheticCompute : public VirtualCompute {
 public:
  /// Serves any stage from `resume.step` on, with the state that the archive holds of it. Plan,
  /// model and archive outlive this.
  /// `to_damage`: how many reduced chunks are still taken over from other peers, here or
  /// elsewhere, until a bit of one flips; null: none does. `to_refuse`: likewise of stages that are
  /// to be made, until there is no memory left for one.
  SyntheticCompute(PeerId self, const RunPlan& plan, const SyntheticModel& model,
                   const ResumeState& resume, SyntheticArchive& archive,
                   std::int64_t* to_damage = nullptr, std::int64_t* to_refuse = nullptr);

  Result<JobResult> execute(const Job& job) override;
  Result<StageStored> save(Step step, StageId stage) override;
  Status load(StageId stage, const ResumeState& state) override;

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
    std::vector<std::int32_t> tensors;          // ids
    std::vector<Block> blocks;                  // of the stage
    std::vector<std::int64_t> index_in_tensor;  // number of each block within its tensor
    std::vector<std::uint64_t> state;           // of each tensor
    std::vector<bool> present;  // of each tensor: false while it is still to be learned
    std::map<Step, std::vector<std::uint64_t>> sums;             // by block
    std::map<Step, Cover> covers;                                // of these
    std::vector<ReducedBlock> gradient;                          // by block
    std::map<Step, std::shared_ptr<const Exponents>> exponents;  // as committed
  };

  Stage& stage(StageId id);
  Stage stage_of(StageId id, const ResumeState& state) const;
  Status check_present(const Stage& stage, StageId id) const;
  Status check_weights(const WorkId& work);
  Status check_exponents(Stage& stage, Step step, const Exponents& exponents) const;
  Status check_activations(const WorkId& work, const PayloadRef& input) const;
  Status check_gradient(const WorkId& work, const PayloadRef& output_gradient) const;
  /// Adds the microbatch to the sums of its step. Returns its contribution to each tensor.
  std::vector<kernels::Contribution> add(Stage& stage, const WorkId& work,
                                         const Exponents& exponents) const;
  Status check_reduced(const Stage& stage, const CommitRecord& record, StageId id) const;
  struct Added {
    std::vector<std::uint64_t> sums;  // by block
    Cover cover;
  };
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

  PeerId self_;
  const RunPlan& plan_;
  const SyntheticModel& model_;
  const ResumeState resume_;
  SyntheticArchive& archive_;
  std::int64_t* to_damage_;
  std::int64_t* to_refuse_;
  std::map<StageId, Stage> stages_;
};

class SyntheticComputeFactory : public ComputeFactory {
 public:
  explicit SyntheticComputeFactory(const SyntheticModel& model) : model_(model) {}
  std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan, const InitialMembership&,
                                       const ResumeState& resume) override {
    return std::make_unique<SyntheticCompute>(self, plan, model_, resume, archive_, &to_damage_,
                                              &to_refuse_);
  }
  /// A bit of this one of all reduced chunks that peers take over from others flips, counted from
  /// 1.
  void damage_chunk(std::int64_t number) { to_damage_ = number; }
  /// There is no memory left for this one of all stages that are to be learned or loaded, counted
  /// from 1.
  void refuse_stage(std::int64_t number) { to_refuse_ = number; }
  bool has_damaged() const override { return to_damage_ < 0; }

 protected:
  SyntheticModel model_;
  SyntheticArchive archive_;
  std::int64_t to_damage_ = 0;  // 0: none; below: it is done
  std::int64_t to_refuse_ = 0;  // likewise
};

}  // namespace swarmpi
