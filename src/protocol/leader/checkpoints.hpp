#pragma once
// Has checkpoints made while a run goes on: when one is owed, of which replicas its parts are asked
// (CheckpointRounds), and what becomes of it.

#include <optional>
#include <string>

#include "core/status.hpp"
#include "protocol/leader/leader_record.hpp"
#include "protocol/leader/run_history.hpp"
#include "protocol/membership/late_work.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/method/checkpoint_interval.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class FailureDetector;

class Checkpoints {
 public:
  /// All outlive this, and are the leader's.
  Checkpoints(const RunPlan& plan, const View& view, RunHistory& history, LeaderRecord& record,
              const LateWork& late, const FailureDetector& failure_detector, Outbox& outbox,
              const double& now_s);

  /// All agree on the state after this step, which was committed at this time of the run.
  void passed(Step step, double time_s);
  /// Whether one of the committed step is wanted, on whose state all agree.
  bool owed() const;
  /// Whether no further step is to be committed before: the deck names this step, so that no other
  /// will do, and too many are being written.
  bool hold_commits() const { return owed() && plan_.checkpoint_due(committed()) && !has_room(); }
  /// Whether another may be begun: not where it would only wait behind those being written.
  bool has_room() const { return history_.checkpoint_rounds.has_room(); }

  /// Asks one replica of each stage, or all where each owns a range, to write its state as of the
  /// committed step; where nobody can write a stage there will be none. `last`: of the run. Whether
  /// anybody was asked.
  bool ask(bool last);
  /// After a table round: asks others for the parts that nobody writes any more. Whether anybody.
  bool repair() { return send(history_.checkpoint_rounds.repair(view_)); }

  /// A part is durable, and with the last one its manifest is stored; an error where it is not the
  /// state that all agreed on.
  Status stored(const StageStoredMessage& message, PeerId from);
  void durable(const CheckpointDurable& checkpoint);
  /// The run goes on: what is missing is only what it would go back to.
  void dropped(const CheckpointDropped& checkpoint);
  void damaged(const CheckpointDamaged& checkpoint);

  /// What that of the committed step took, if it is complete; else 0.
  double last_took_s() const { return last_took_s_; }
  /// Another step is committed.
  void committed_another() { last_took_s_ = 0; }
  /// All have gone back to the committed step.
  void go_back() { interval_.go_back(committed(), history_.commit_log.state().time_s); }
  /// What is known of the replicas of this stage that hang or do not answer, for people.
  std::string who_hangs(StageId stage) const;

 private:
  Step committed() const { return history_.committed(); }
  /// Nobody writes that of the committed step, and why; the run goes on.
  void drop(StageId stage, const std::string& why);
  bool send(const CheckpointRounds::Orders& orders);

  const RunPlan& plan_;
  const View& view_;
  RunHistory& history_;
  LeaderRecord& record_;
  const LateWork& late_;
  const FailureDetector& failure_detector_;
  Outbox& outbox_;
  const double& now_s_;
  CheckpointInterval interval_;
  double last_took_s_ = 0;
};

}  // namespace swarmpi
