#pragma once
// After which steps a checkpoint is due by the clock. Static pipelines choose the interval by what
// a checkpoint takes, unless the deck says it: a death sends all back to the last one, so the
// interval decides how much a death costs.

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/run_plan.hpp"

namespace swarmpi {

/// Seconds from one checkpoint to the next with which the least time is lost to both checkpoints
/// and deaths: sqrt(2 C M) (J. W. Young, CACM 17, 1974), in the higher order of J. T. Daly (Future
/// Generation Computer Systems 22, 2006). C: what a checkpoint takes, M: the mean time between
/// deaths; both > 0, in seconds.
double best_interval_s(double checkpoint_s, double between_deaths_s);

/// Decides after which steps a checkpoint is due, from measured times. By the deck: after the first
/// step that is committed when another checkpoint_every_s of run time have passed, whoever leads.
/// Of a static pipeline: the first is due after the first step; what it takes tells the interval,
/// in whole steps. No bit of the result depends on it.
class CheckpointInterval {
 public:
  /// `run_time_s`: of the last step that is committed.
  CheckpointInterval(const RunPlan& plan, double run_time_s);

  /// The step was committed at this time, and its state is agreed on. Whether a checkpoint of it is
  /// due.
  bool due(Step step, double committed_s);
  /// A checkpoint is complete, and took so long. What follows from it, for people, where the
  /// interval is another than before; else "".
  std::string measured(double checkpoint_s);
  /// All go on from the checkpoint of this step, which was committed at this run time.
  void go_back(Step step, double run_time_s);

 private:
  /// As due(), where the deck says how many seconds lie between checkpoints.
  bool passed_by_clock(double committed_s);

  double every_s_;                     // 0: the deck says no time
  double passed_ = 0;                  // intervals of run time so far
  double between_deaths_s_;            // 0: the interval does not follow from deaths
  std::optional<double> committed_s_;  // when the step before was
  std::optional<double> step_s_;       // mean, newer ones count more
  std::int64_t steps_ = 0;             // between two checkpoints; 0: not known yet
  bool measures_ = false;              // a first checkpoint was due, to learn what it takes
  Step last_{0};                       // for which a checkpoint was due, or from which all went on
};

}  // namespace swarmpi
