#include "protocol/method/checkpoint_interval.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace swarmpi {
namespace {

// Of the newest step, in the mean of all.
constexpr double kNewestWeight = 0.1;

double intervals_in(double run_time_s, double every_s) {
  return every_s > 0 ? std::floor(run_time_s / every_s) : 0;
}

}  // namespace

double best_interval_s(double checkpoint_s, double between_deaths_s) {
  const double ratio = checkpoint_s / (2 * between_deaths_s);
  if (ratio >= 1) return between_deaths_s;
  const double young_s = std::sqrt(2 * checkpoint_s * between_deaths_s);
  return young_s * (1 + std::sqrt(ratio) / 3 + ratio / 9) - checkpoint_s;
}

CheckpointInterval::CheckpointInterval(const RunPlan& plan, double run_time_s)
    : every_s_(plan.checkpoint_every < 0 ? 0 : plan.checkpoint_every_s),
      passed_(intervals_in(run_time_s, every_s_)),
      between_deaths_s_(
          plan.swarm.has_pipelines() && plan.checkpoint_every == 0 ? plan.between_deaths_s : 0) {}

// Multiples of run time, and not the time since the last checkpoint: a new leader does not know
// that, and where leaders die more often than one is due, none would ever be written.
bool CheckpointInterval::passed_by_clock(double committed_s) {
  const double passed = intervals_in(committed_s, every_s_);
  return passed > std::exchange(passed_, passed);
}

bool CheckpointInterval::due(Step step, double committed_s) {
  if (between_deaths_s_ <= 0) return passed_by_clock(committed_s);
  const auto before_s = std::exchange(committed_s_, committed_s);
  if (before_s) {
    const double step_s = committed_s - *before_s;
    step_s_ = step_s_ ? *step_s_ + kNewestWeight * (step_s - *step_s_) : step_s;
  }
  if (!step_s_ || step.value == 0) return false;
  const bool is_due = steps_ == 0 ? !measures_ : step.value >= last_.value + steps_;
  if (!is_due) return false;
  measures_ = true;
  last_ = step;
  return true;
}

// What the step in which all went back took is not what a step takes.
void CheckpointInterval::go_back(Step step, double run_time_s) {
  passed_ = intervals_in(run_time_s, every_s_);
  last_ = step;
  measures_ = false;
  committed_s_.reset();
}

std::string CheckpointInterval::measured(double checkpoint_s) {
  if (between_deaths_s_ <= 0 || !step_s_ || *step_s_ <= 0) return "";
  const double best_s = best_interval_s(std::max(checkpoint_s, 1e-9), between_deaths_s_);
  const double steps = std::clamp(std::round(best_s / *step_s_), 1.0, 1e9);
  const std::int64_t before = std::exchange(steps_, static_cast<std::int64_t>(steps));
  if (steps_ == before) return "";
  return fmt::format(
      "one in {} steps from now on (Young, Daly): a checkpoint took {:.3g} s, a step takes {:.3g} "
      "s, "
      "a death comes each {:.3g} s",
      steps_, checkpoint_s, *step_s_, between_deaths_s_);
}

}  // namespace swarmpi
