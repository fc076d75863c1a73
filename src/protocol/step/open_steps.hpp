#pragma once
// The steps that are open at the leader: which may start, which microbatch is issued to whom next,
// what peers report of them, and which stages are to be sealed.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/step/open_step.hpp"
#include "protocol/wiring/router.hpp"

namespace swarmpi {

class OpenSteps {
 public:
  /// Opens the steps after `committed`, issues through `router` (to the replicas of stage 0), and
  /// numbers seals from `first_seal` on.
  OpenSteps(const RunPlan& plan, std::unique_ptr<Router> router, Step committed, SealId first_seal)
      : plan_(&plan),
        router_(std::move(router)),
        next_to_open_(committed.next()),
        next_seal_(first_seal) {}

  auto begin() { return open_.begin(); }
  auto end() { return open_.end(); }
  auto begin() const { return open_.begin(); }
  auto end() const { return open_.end(); }
  bool empty() const { return open_.empty(); }
  /// Null if the step is not open.
  OpenStep* find(Step step);
  std::optional<Step> oldest() const;
  /// The last step whose microbatches are all finished, and that is being reduced.
  std::optional<Step> sealed() const;
  /// The last step that was opened, or passed over because it has no microbatches.
  Step newest() const { return Step(next_to_open_.value - 1); }
  /// Whether no step of the run is left to be opened.
  bool opened_all() const { return newest().value >= plan_->last_pass(); }
  const SealId& next_seal() const { return next_seal_; }

  // ---- Open and close
  /// Opens the steps that may start: those whose weights the committed steps determine.
  void open_due(Step committed, double now_s);
  /// Opens all steps up to this one.
  void open_through(Step step, double now_s);
  /// The steps up to this one are committed: they are never opened.
  void skip_through(Step committed);
  /// The step is committed.
  void close(Step step) { open_.erase(step); }
  /// A pass behind the last step, which only validates.
  struct ValidationPass {
    Step step;
    double loss = 0;  ///< nats a token
  };
  /// Closes those whose microbatches are all finished.
  std::vector<ValidationPass> close_validation_passes();

  // ---- Issue
  struct Issue {
    PeerId to;
    MicrobatchId microbatch;
    PathRef path;
  };
  /// The microbatches to be issued now: an older step first, until the window is full.
  std::vector<Issue> issue(Step committed);
  /// Issues one microbatch of an open step: to `to`, or to the router's choice.
  Issue issue(OpenStep& open, const MicrobatchId& id, std::optional<PeerId> to, PathRef path);
  Router& router() { return *router_; }
  /// What was measured of the peers outlives these steps. Nothing may be issued after it.
  std::unique_ptr<Router> take_router() { return std::move(router_); }

  // ---- What peers report
  void enter(const ReportMessage& message, const View& view, PeerId from);
  void enter(const ReducedMessage& message, const View& view, PeerId from);
  void enter_table(const TableMessage& table, PeerId from, double now_s);
  /// What the peer has contributed to this stage, or to all, is gone with it.
  void forget(PeerId peer, std::optional<StageId> stage);

  // ---- Seal
  /// Seals the stages of the steps whose microbatches are all finished: all but those that have a
  /// seal, lack a contribution, or are reduced. What to tell who serves or learns.
  std::vector<StepSeal> seal(const View& view, double now_s,
                             const CollectiveBallot& collectives = {});
  /// The learners for which alone a commit has waited for too long.
  std::vector<OpenStep::LateLearner> late_learners(const View& view, double now_s,
                                                   double least_patience_s);

  /// What the oldest step that is not ready to be committed waits for; for messages about stalls.
  std::optional<std::string> waiting_for() const;
  /// Whether counts are what a look at everything gives. For torture.
  bool counts_hold(const View& view) const;

 private:
  /// Begins the account of the next step; a step without microbatches is passed over.
  void open_next(double now_s);

  const RunPlan* plan_;
  std::unique_ptr<Router> router_;
  std::map<Step, OpenStep> open_;
  Step next_to_open_;
  SealId next_seal_;
};

}  // namespace swarmpi
