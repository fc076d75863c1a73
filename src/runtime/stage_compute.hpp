#pragma once
// Compute with real kernels: a thread that executes the peer's jobs.

#include "core/clock.hpp"
#include "kernels/backend.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/task_thread.hpp"

namespace swarmpi {

/// How long jobs are to take, where a device is emulated that is slower than this machine.
class Pace {
 public:
  virtual ~Pace() = default;
  /// Seconds that a job is to take; 0: as long as its kernels take.
  virtual double job_s(const Job& job) const = 0;
  /// Sleeps until a job that took `real_s` up to now has taken `modelled_s`. Returns what it took:
  /// `modelled_s`, or more where this machine is slower.
  virtual double keep_pace(double modelled_s, double real_s) = 0;
};

class StageCompute final : public Compute {
 public:
  /// `pace`: outlives this; null: every job takes as long as its kernels take.
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
