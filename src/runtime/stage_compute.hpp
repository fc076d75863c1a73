#pragma once
// Compute with real kernels: a thread that executes the peer's jobs.

#include "core/clock.hpp"
#include "kernels/backend.hpp"
#include "protocol/messages/compute_port.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/payload_copies.hpp"
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
  /// `copies`: null where jobs do all copies themselves. REQUIRES: all outlive this.
  StageCompute(JobRunner& runner, kernels::Backend& backend, Inbox& inbox,
               PayloadCopies* copies = nullptr);

  void start(Job job) override;
  void will_read(const PayloadRef& payload) override {
    if (copies_ != nullptr) copies_->fetch_ahead(payload);
  }
  double cpu_s() const override { return thread_.cpu_s(); }
  /// Waits for the job that runs and for copies, if any, `patience_s` at most. Whether they have
  /// ended; if not, this must not be destroyed.
  bool settle(double patience_s);

 private:
  JobRunner& runner_;
  Inbox& inbox_;
  PayloadCopies* copies_;
  mutable TaskThread thread_;  // last: its jobs use all of the above
};

}  // namespace swarmpi
