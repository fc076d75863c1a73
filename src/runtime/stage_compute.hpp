#pragma once
// Compute with real kernels: a thread that executes the peer's jobs.

#include "core/clock.hpp"
#include "kernels/backend.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/task_thread.hpp"

namespace swarmpi {

/// Makes jobs take longer than their kernels do.
class Pace {
 public:
  virtual ~Pace() = default;
  /// Sleeps until a job, whose kernels took `kernels_s`, has taken what it is to take. Returns what
  /// that was: `kernels_s` or more.
  virtual double keep_pace(const Job& job, double kernels_s) = 0;
};

class StageCompute final : public Compute {
 public:
  /// `pace`: outlives this; null: every job takes as long as its kernels do.
  StageCompute(JobExecutor& executor, kernels::Backend& backend, const Clock& clock, Inbox& inbox,
               Pace* pace = nullptr);

  void start(Job job) override;

 private:
  JobExecutor& executor_;
  const Clock& clock_;
  Inbox& inbox_;
  Pace* pace_;
  TaskThread thread_;  // last: its jobs use all of the above
};

}  // namespace swarmpi
