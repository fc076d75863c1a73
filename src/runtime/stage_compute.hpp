#pragma once
// Compute with real kernels: a thread that executes the peer's jobs.

#include "core/clock.hpp"
#include "kernels/backend.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/task_thread.hpp"

namespace swarmpi {

/// Runs jobs, one at a time, on the calling thread. A decorator may hold them longer.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  /// The result, and how long it took. Errors: those of the executor.
  virtual Result<JobFinished> run(const Job& job) = 0;
};

/// Every job takes as long as its kernels do.
class KernelRunner final : public JobRunner {
 public:
  KernelRunner(JobExecutor& executor, const Clock& clock) : executor_(executor), clock_(clock) {}
  Result<JobFinished> run(const Job& job) override;

 private:
  JobExecutor& executor_;
  const Clock& clock_;
};

class StageCompute final : public Compute {
 public:
  /// REQUIRES: runner, backend and inbox outlive this.
  StageCompute(JobRunner& runner, kernels::Backend& backend, Inbox& inbox);

  void start(Job job) override;
  double cpu_s() const override { return thread_.cpu_s(); }
  /// Waits for the job that runs, if any, `patience_s` at most. Whether it has ended; if not, this
  /// must not be destroyed.
  bool settle(double patience_s);

 private:
  JobRunner& runner_;
  Inbox& inbox_;
  mutable TaskThread thread_;  // last: its jobs use all of the above
};

}  // namespace swarmpi
