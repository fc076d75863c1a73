#pragma once
// Compute with real kernels: the peer's stages, their data, and the thread that works on them.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "config/config.hpp"
#include "core/clock.hpp"
#include "data/dataset.hpp"
#include "kernels/backend.hpp"
#include "model/stage_model.hpp"
#include "worker/compute.hpp"
#include "worker/inbox.hpp"
#include "worker/payload_pool.hpp"
#include "worker/task_thread.hpp"

namespace swarmpi {

class StageCompute final : public Compute {
 public:
  /// `stages`: those that this peer serves, ready to run.
  StageCompute(const Config& config, const Dataset& data, kernels::Backend& backend,
               std::vector<std::unique_ptr<StageModel>> stages, const Clock& clock, Inbox& inbox);

  void start(Job job) override;
  /// REQUIRES: no update of the stage is running or can start.
  StageModel& stage(StageId stage);

 private:
  JobResult execute(const ForwardJob& job);
  JobResult execute(const BackwardJob& job);
  JobResult execute(const ReduceJob& job);
  JobResult execute(const ApplyJob& job);
  /// Makes the tokens of a job that works on a microbatch.
  Status load_tokens(const Job& job);

  const Dataset& data_;
  const Clock& clock_;
  Inbox& inbox_;
  std::map<StageId, std::unique_ptr<StageModel>> stages_;
  PayloadPool payloads_;
  std::vector<std::int32_t> inputs_;   // (B*T)
  std::vector<std::int32_t> targets_;  // (B*T)
  TaskThread thread_;                  // last: its jobs use all of the above
};

}  // namespace swarmpi
