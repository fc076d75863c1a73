#pragma once
// Exactly once: the leader's account of one step. It learns who contributed what, and says when
// every microbatch is in every stage, which shares to seal, and what the step comes to. What a dead
// peer had contributed is missing again; what its contributions came to stays known.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "protocol/messages/messages.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class Ledger {
 public:
  Ledger(const RunPlan& plan, Step step);

  /// Notes that `from` has this microbatch in its accumulator. Facts may repeat. If another peer
  /// contributed it before, the first counts.
  void note(const ContributionFact& fact, PeerId from);
  void note(const LossFact& fact);
  /// The same of all that a peer has contributed to a stage.
  void note(const StageRow& row, PeerId from);
  /// What an earlier leader has sealed.
  void note(const std::shared_ptr<const StepFacts>& facts);
  /// The peer is dead, or has left this stage: its accumulators are gone.
  void forget(PeerId peer, std::optional<StageId> stage_left = {});
  /// Whether the stage's reduced gradient is known, or not wanted: contributions that are missing
  /// are not needed any more.
  void settle(StageId stage, bool settled);
  bool settled(StageId stage) const { return at(stage).settled; }

  Step step() const { return step_; }
  /// Who has this training microbatch in its accumulator.
  std::optional<PeerId> contributor(const WorkId& work) const;
  /// Every microbatch is in the stage, or it is settled.
  bool covered(StageId stage) const;
  /// Whether nothing more is to be done for this microbatch.
  bool finished(const MicrobatchId& microbatch) const;
  std::int64_t finished_count() const { return finished_; }
  /// Every stage is covered, and what the step comes to is known.
  bool complete() const;

  /// Of one stage: disjoint, together all unless it is settled.
  std::vector<SealShare> shares(StageId stage) const;
  /// REQUIRES: complete().
  std::shared_ptr<const StepFacts> facts() const;

 private:
  struct StageAccount {
    Bitmap counted;  // in the accumulator of a live peer
    std::map<PeerId, Bitmap> by_peer;
    bool settled = false;
  };

  const StageAccount& at(StageId stage) const {
    return stages_.at(static_cast<std::size_t>(stage.value));
  }
  void measure(StageId stage, const std::vector<kernels::Contribution>& tensors);
  bool finished_training(std::size_t index) const {
    return missing_[index] == 0 && (sealed_ || train_losses_[index]);
  }
  void recount();
  double sum(const std::vector<std::optional<double>>& losses) const;

  const RunPlan& plan_;
  Step step_;
  std::vector<StageAccount> stages_;
  std::vector<std::optional<double>> train_losses_;
  std::vector<std::optional<double>> validation_losses_;
  std::vector<std::int32_t> missing_;  // of each training microbatch: stages that need it
  std::int64_t finished_ = 0;
  Exponents measured_;
  std::set<std::int32_t> flagged_tensors_;
  std::shared_ptr<const StepFacts> sealed_;
};

}  // namespace swarmpi
