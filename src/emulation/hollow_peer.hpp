#pragma once
// `compute.kernels = "none"`: a peer that computes nothing and keeps its books only. Its stages
// take no memory, and its payloads are sizes.

#include <mutex>

#include "config/config.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/run_plan.hpp"
#include "runtime/hollow_stages.hpp"
#include "runtime/stage_compute.hpp"
#include "simulation/hollow_compute.hpp"

namespace swarmpi {

class HollowPeer final : public JobRunner, public HollowStages {
 public:
  /// REQUIRES: the backend outlives this.
  HollowPeer(PeerId self, const Config& config, RunPlan plan, const ResumeState& resume,
             const kernels::Backend& backend);

  /// Takes no time: a device that is emulated makes it last.
  Result<JobFinished> run(const Job& job) override;
  Result<std::vector<std::uint64_t>> tensor_hashes(Step step, StageId stage) override;
  Status load(StageId stage, const ResumeState& state) override;
  const kernels::Backend& backend() const override { return backend_; }

 private:
  const RunPlan plan_;
  const kernels::Backend& backend_;
  std::mutex mutex_;  // jobs and storage have threads of their own
  HollowModel model_;
  HollowCompute compute_;
};

}  // namespace swarmpi
