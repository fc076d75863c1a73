#pragma once
// What a leader stores of the run: rows of steps, events, and the last rows of lives, all at the
// run's time. RecordDurable answers each.

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/membership/view.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/agreement.hpp"
#include "protocol/step/commit_log.hpp"
#include "protocol/step/lives.hpp"
#include "protocol/step/run_rows.hpp"

namespace swarmpi {

struct Suspicion;

class LeaderRecord {
 public:
  /// Of the leader `self`, in the run whose first term is `run` and whose time is so far ahead of
  /// the leader's clock. `commit_log`: the leader's; faults up to the time of its last step are
  /// stored already.
  LeaderRecord(PeerId self, const RunPlan& plan, const CommitLog& commit_log, Outbox& outbox,
               Term run, double run_time_ahead_s, const double& now_s);

  /// The time of the event under way.
  double run_time_s() const { return run_time_ahead_s_ + now_s_; }
  /// What the leader's clock shows, or showed, at that time of the run.
  double clock_at(double run_time_s) const { return run_time_s - run_time_ahead_s_; }
  /// The last step that is known was committed at this time of the run: so late it is at least, and
  /// the rows that follow are of steps after it.
  void go_on_from(double run_time_s);

  /// Which rows are numbered, durable, or wait.
  RunRows& rows() { return rows_; }
  const RunRows& rows() const { return rows_; }
  /// What the peers' time goes by with.
  Lives& lives() { return lives_; }

  /// Appends a row to the journal of this term.
  void store(RunRows::Row row);
  /// Stores the rows of a step that all replicas agree on.
  void store_step(const AgreedStep& agreed, const View& view);
  /// The loss of a validation that rode on this step.
  void add_validation(Step step, double loss);
  /// Stores the validation rows whose states are agreed on, in order of steps.
  void store_validations(Step agreed, std::optional<Step> oldest_open);

  /// Stores an event of this leader.
  void store_event(EventKind kind, std::int64_t step, double cost_s, std::string detail);
  /// Stores an event of another peer, at the committed step.
  void store_peer_event(EventKind kind, PeerId peer, std::optional<StageId> stage,
                        std::string detail);
  /// Stores an event of a stage, or of none, and of no peer, at the committed step.
  void store_stage_event(EventKind kind, std::optional<StageId> stage, double cost_s,
                         std::string detail);
  /// Stores a death and, before it, the suspicion that it follows from.
  void store_death(PeerId peer, const std::string& how, const std::optional<Suspicion>& suspicion);
  /// Stores the faults by the clock that are due.
  void store_faults();

  /// The next row that is stored tells of the end of this peer's time, whose rest goes into
  /// `column`; of it `checkpoint_s` at most went by with the last checkpoint.
  void end_life(PeerId peer, double GoodputRow::*column, double checkpoint_s = 0);

 private:
  Step committed() const { return commit_log_.committed(); }

  PeerId self_;
  const RunPlan& plan_;
  const CommitLog& commit_log_;
  Outbox& outbox_;
  const double& now_s_;
  double run_time_ahead_s_;
  RunRows rows_;
  Lives lives_;
  std::size_t next_fault_ = 0;  // of plan_.faults_by_clock
};

}  // namespace swarmpi
