#pragma once
// Compute with real kernels: the thread on which a peer's jobs are done.

#include "core/clock.hpp"
#include "kernels/backend.hpp"
#include "worker/compute.hpp"
#include "worker/emulated_device.hpp"
#include "worker/inbox.hpp"
#include "worker/job_executor.hpp"
#include "worker/task_thread.hpp"

namespace swarmpi {

class StageCompute final : public Compute {
 public:
  /// `device`: whose pace to keep; null: as fast as this machine can.
  StageCompute(JobExecutor& executor, kernels::Backend& backend, const Clock& clock, Inbox& inbox,
               EmulatedDevice* device = nullptr);

  void start(Job job) override;

 private:
  JobExecutor& executor_;
  const Clock& clock_;
  Inbox& inbox_;
  EmulatedDevice* device_;
  TaskThread thread_;  // last: its jobs use all of the above
};

}  // namespace swarmpi
