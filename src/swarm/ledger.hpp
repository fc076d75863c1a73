#pragma once
// Exactly once: the leader's account of one step. It learns who contributed what, and says when
// every microbatch is in every stage, which shares to seal, and what the step's loss and exponents
// are.

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "swarm/messages.hpp"
#include "swarm/plan.hpp"

namespace swarmpi {

class Ledger {
 public:
  Ledger(const RunPlan& plan, Step step);

  /// Notes that `from` has this microbatch in its accumulator. Facts may repeat. If another peer
  /// contributed it before, the first counts.
  void note(const ContributionFact& fact, PeerId from);
  void note(const LossFact& fact);

  /// Whether nothing more is to be done for this microbatch.
  bool finished(const MicrobatchId& microbatch) const;
  std::int64_t finished_count() const;
  /// Every microbatch contributed to every stage, every loss known.
  bool complete() const;

  /// Of each stage disjoint, together all. REQUIRES: complete().
  std::vector<SealShare> shares() const;
  /// A gradient was infinite, NaN or above the headroom: the step is committed as skipped.
  bool flagged() const { return !flagged_tensors_.empty(); }
  const std::set<std::int32_t>& flagged_tensors() const { return flagged_tensors_; }
  /// e of every tensor: the largest over the microbatches.
  const Exponents& measured() const { return measured_; }
  /// Nats summed in index order. REQUIRES: complete().
  double loss_nats(Purpose purpose) const;

 private:
  struct StageAccount {
    Bitmap counted;  // contributed by somebody
    std::map<PeerId, Bitmap> by_peer;
  };

  const RunPlan& plan_;
  Step step_;
  std::vector<StageAccount> stages_;
  std::vector<std::optional<double>> train_losses_;
  std::vector<std::optional<double>> validation_losses_;
  std::vector<std::int32_t> contributions_left_;  // of each training microbatch, one a stage
  std::int64_t finished_ = 0;
  Exponents measured_;
  std::set<std::int32_t> flagged_tensors_;
};

}  // namespace swarmpi
