#include "emulation/hollow_peer.hpp"

#include <utility>

#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/storage_port.hpp"

namespace swarmpi {

HollowPeer::HollowPeer(PeerId self, const Config& config, RunPlan plan, const ResumeState& resume,
                       const kernels::Backend& backend)
    : plan_(std::move(plan)),
      backend_(backend),
      model_(config, plan_),
      compute_(self, model_, resume) {}

Result<JobFinished> HollowPeer::run(const Job& job) {
  const std::lock_guard lock(mutex_);
  Result<JobResult> result = compute_.execute(job);
  if (!result.ok()) return result.status();
  return JobFinished{std::move(result).value(), 0};
}

Result<std::vector<std::uint64_t>> HollowPeer::tensor_hashes(Step step, StageId stage) {
  const std::lock_guard lock(mutex_);
  Result<StageStored> saved = compute_.save(step, stage);
  if (!saved.ok()) return saved.status();
  return std::move(saved).value().tensor_hashes;
}

Status HollowPeer::load(StageId stage, const ResumeState& state) {
  const std::lock_guard lock(mutex_);
  return compute_.load(stage, state, {});
}

}  // namespace swarmpi
