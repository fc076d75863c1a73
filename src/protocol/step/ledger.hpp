#pragma once
// The leader's account of one step: which peer has which microbatches in its accumulators. It says
// when every microbatch is in every stage, which shares to seal so that each counts exactly once,
// and the facts of the step (losses, exponents, flags). What a dead peer had contributed is missing
// again; its losses, exponents and flags stay known, for they do not depend on who computes them
// (in a mixed run losses do, and are forgotten).

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/records.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/messages/bitmap.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

/// One replica's share of a sealed stage: exactly these microbatches are in its accumulator.
struct SealShare {
  PeerId peer;
  Bitmap microbatches;
};

class Ledger {
 public:
  Ledger(const RunPlan& plan, Step step);

  /// `from` has this microbatch in its accumulator. May be repeated.
  void add_contribution(const ContributionFact& fact, PeerId from);
  void add_loss(const LossFact& fact);
  /// The same for all that `from` has contributed to a stage, as its table says.
  void add_stage_row(const StageRow& row, PeerId from);
  /// The step's facts are fixed from now on: they were sealed, by this leader or an earlier one.
  void set_facts(const std::shared_ptr<const StepFacts>& facts);
  /// The accumulators of the peer are gone: in all stages, for it is dead, or in the one that it
  /// has left.
  void forget(PeerId peer, std::optional<StageId> stage_left = {});
  /// A settled stage needs no contributions: its reduced gradient is finished, or the step will be
  /// skipped.
  void set_settled(StageId stage, bool settled);
  bool settled(StageId stage) const { return at(stage).settled; }

  Step step() const { return step_; }
  /// The peer with the lowest id that has this training microbatch in its accumulator.
  std::optional<PeerId> contributor(const WorkId& work) const;
  /// Whether every microbatch is in an accumulator of the stage, or the stage is settled.
  bool covered(StageId stage) const;
  /// Whether nothing more is to be done for this microbatch: no stage lacks it, and its loss is
  /// known.
  bool finished(const MicrobatchId& microbatch) const;
  std::int64_t finished_count() const { return finished_; }
  /// Microbatches that are finished, or have come back to the first stage.
  std::int64_t returned_count() const {
    return std::max(finished_, stages_.front().counted.count() + validated_);
  }
  /// Whether all microbatches are finished: then the step can be sealed.
  bool complete() const;

  /// What to seal in one stage, by peer: disjoint, together all microbatches unless the stage is
  /// settled.
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
  void add_measurements(StageId stage, const std::vector<kernels::Contribution>& tensors);
  bool finished_training(std::size_t index) const {
    return missing_[index] == 0 && (sealed_ || train_losses_[index]);
  }
  /// The microbatch is in an accumulator of the stage; the first time it changes the counts.
  void count(StageAccount& stage, std::int64_t index);
  /// Of training microbatches that are to be made again.
  void forget_losses(const Bitmap& microbatches);
  void recount();
  double sum(const std::vector<std::optional<double>>& losses) const;

  const RunPlan& plan_;
  Step step_;
  std::vector<StageAccount> stages_;
  std::vector<std::optional<double>> train_losses_;
  std::vector<std::optional<double>> validation_losses_;
  std::vector<std::int32_t> missing_;  // of each training microbatch: stages that need it
  std::int64_t finished_ = 0;          // microbatches, of both purposes
  std::int64_t validated_ = 0;         // of these
  Exponents measured_;
  std::set<std::int32_t> flagged_tensors_;
  std::shared_ptr<const StepFacts> sealed_;  // null until the facts are fixed
};

}  // namespace swarmpi
