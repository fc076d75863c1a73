#include "protocol/replica/job_watch.hpp"

#include <algorithm>

#include "protocol/membership/cpu_use.hpp"

namespace swarmpi {
namespace {

// A job is late after so many times the median of its kind ...
constexpr double kTimesTheMedian = 30;
// ... and so many times suspect_after_s: thirteen ranks beside three busy loops were 16 times
// slower than alone.
constexpr double kTimesThePatience = 10;

}  // namespace

void JobWatch::begin(const Job& job, double awake_s) {
  running_ = Running{{job.number(), stage_of(job)}, awake_s, std::nullopt, awake_s};
}

void JobWatch::end(double duration_s) {
  if (!running_) return;
  durations_[running_->kind].add(duration_s);
  running_.reset();
}

bool JobWatch::wants_probe(double awake_s) const {
  return running_ && awake_s - running_->begun_s >= plan_->swarm.suspect_after_s;
}

void JobWatch::probed(double cpu_s, double awake_s) {
  if (!running_) return;
  const bool known = running_->cpu_s.has_value();
  if (known && !computes(cpu_s - *running_->cpu_s, awake_s - running_->still_since_s)) return;
  running_->cpu_s = cpu_s;
  running_->still_since_s = awake_s;
}

std::optional<double> JobWatch::median_s(const Kind& kind) const {
  const auto found = durations_.find(kind);
  return found == durations_.end() ? std::nullopt : std::optional(found->second.median_s());
}

double JobWatch::Durations::median_s() const {
  std::array<float, 31> sorted = last_s_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(next_, sorted.size()));
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

std::optional<double> JobWatch::late_s(double awake_s) const {
  if (!running_) return std::nullopt;
  const double runs_s = awake_s - running_->begun_s;
  if (runs_s >= plan_->job_timeout_s) return runs_s;
  const double patience_s = plan_->swarm.suspect_after_s;
  if (!running_->cpu_s || runs_s < kTimesThePatience * patience_s) return std::nullopt;
  const std::optional<double> median = median_s(running_->kind);
  if (!median) return std::nullopt;
  const bool long_enough = runs_s >= kTimesTheMedian * *median;
  const bool still = awake_s - running_->still_since_s >= patience_s;
  return long_enough && still ? std::optional(runs_s) : std::nullopt;
}

}  // namespace swarmpi
