#pragma once
// A step between its first microbatch and its commit, as the leader sees it: which microbatches are
// issued, who has contributed what, how each stage is sealed, and who holds the reduced gradient.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/membership/view.hpp"
#include "protocol/reduction/collective_way.hpp"
#include "protocol/reduction/gradient_facts.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/ledger.hpp"
#include "protocol/step/stage_answers.hpp"
#include "protocol/step/step_seal.hpp"

namespace swarmpi {

class OpenStep {
 public:
  explicit OpenStep(const RunPlan& plan, Step step, double opened_at_s = 0);

  Step step() const { return ledger_.step(); }
  const Ledger& ledger() const { return ledger_; }
  /// The step's facts, once all its microbatches are finished; else null.
  const std::shared_ptr<const StepFacts>& facts() const { return facts_; }
  /// When they were first known to this leader. REQUIRES: facts().
  double sealed_at_s() const { return sealed_at_s_; }

  // ---- Issue
  std::int64_t issued_count() const;
  /// Issued, and not back yet: reports of other stages than the first may come later than that.
  std::int64_t in_flight() const { return issued_count() - ledger_.returned_count(); }
  /// The first of this purpose that is not issued yet; nothing if all are.
  std::optional<MicrobatchId> next_to_issue(Purpose purpose) const;
  void set_issued(const MicrobatchId& id) { issued_.at(id.purpose).insert(id.index); }

  // ---- What peers report
  void enter(const ContributionFact& fact, PeerId from) { ledger_.add_contribution(fact, from); }
  void enter(const LossFact& fact) { ledger_.add_loss(fact); }
  void enter(const ReducedMessage& message, const View& view, PeerId from);
  /// What the peer has contributed to this stage, or to all, is gone with it.
  void forget(PeerId peer, std::optional<StageId> stage);

  // ---- Seal and reduction
  /// Seals the stages that have no seal, lack no contribution and are not reduced, once all
  /// microbatches are finished; `next` numbers the seals. Nothing if there is no such stage.
  /// `collectives`: what was heard of those of this view.
  std::optional<StepSeal> seal(const View& view, SealId& next, double now_s,
                               const CollectiveBallot& collectives = {});
  /// Whether the stage stands sealed so.
  bool stands(StageId stage, const SealId& seal) const { return stages_.at(stage).seal == seal; }
  /// Whether all replicas of the stage hold its whole reduced gradient, and so do the learners that
  /// its seal names and that still learn it.
  bool reduced_by_all(const View& view, StageId stage) const;
  /// The same for all stages.
  bool reduced_by_all(const View& view) const;
  /// Of the whole model's gradient, from the squares that one replica of each stage has reported.
  double gradient_norm() const;

  /// A stage whose reduced gradient is not to be trusted, and why, for people.
  struct Doubt {
    StageId stage;
    std::string why;
  };
  /// The first stage whose replicas, or learners, hold different reduced gradients; nothing if all
  /// that is known agrees.
  std::optional<Doubt> disagreement() const;
  /// What came of the stage's reduction counts no more: its sums, which all have kept, are to be
  /// sealed and reduced once more. False if that was done as often as it may be.
  bool reduce_again(StageId stage);

  /// A learner for which alone the commit waits.
  struct LateLearner {
    PeerId peer;
    StageId stage;
    double waited_s = 0;
    double patience_s = 0;
  };
  /// Those that all replicas of their stage have waited for, as long as the step took them, and
  /// `least_patience_s` at least: nobody who learns makes a step more than twice as long.
  std::vector<LateLearner> late_learners(const View& view, double now_s, double least_patience_s);

  // ---- Repair, from tables
  /// Enters a peer's facts, losses, contributions and work under way of this step.
  void enter_table(const TableMessage& table, PeerId from, double now_s);
  /// Voids the seals that a death or a departure has broken. The stages that lack contributions and
  /// whose accumulators are to be re-opened.
  std::vector<StageId> void_broken_seals(const View& view, const Tables& tables);
  /// The microbatches that are issued and not finished.
  std::vector<MicrobatchId> unfinished() const;

  /// Whether counts are what a look at everything gives. For torture.
  bool counts_hold(const View& view) const { return reduced_.counts_hold(view); }

 private:
  /// How a stage was sealed last.
  struct StageSealing {
    std::optional<SealId> seal;  // none: to be sealed (again)
    std::vector<PeerId> replicas;
    std::vector<PeerId> learners;
    bool by_collective = false;
    std::set<PeerId> finished_chunk_senders;  // peers that the seal tells to send finished chunks
    std::int64_t chunk_replicas = 0;          // replicas that its chunks are cut for
    std::int64_t attempt = 0;                 // reductions before this one that are not trusted
    ChunkHolders finished_chunk_holders;      // as of the last table round
    std::optional<double> reduced_at_s;       // when all replicas held the whole reduced gradient
  };

  bool skipped() const;
  /// Who holds which finished chunks of the stage's reduced gradient.
  void collect_finished_chunks(StageId stage, StageSealing& sealed, const Tables& tables);
  /// If it is a later one than the stage's: all that came of those before counts no more.
  void begin_attempt(StageId stage, std::int64_t attempt);
  /// Whether the peers that the seal needs still serve or learn the stage, and it names all who
  /// serve it now.
  static bool seal_is_valid(const View& view, StageId stage, const StageSealing& sealed);
  /// How many chunks the stage's gradient has when it is cut for so many replicas.
  std::int64_t chunk_count(StageId stage, std::int64_t chunk_replicas) const;

  const RunPlan& plan_;
  Ledger ledger_;
  std::map<Purpose, Bitmap> issued_;
  std::shared_ptr<const StepFacts> facts_;
  double opened_at_s_;
  double sealed_at_s_ = 0;
  std::map<StageId, StageSealing> stages_;
  StageAnswers<GradientFacts> reduced_;  // under the last attempt
};

}  // namespace swarmpi
