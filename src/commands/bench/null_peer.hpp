#pragma once
// Compute for benchmarks of the protocol and the transport: no arithmetic.

#include "core/cover.hpp"
#include "core/payload.hpp"
#include "model/boundary.hpp"
#include "protocol/run_plan.hpp"
#include "runtime/compute.hpp"
#include "runtime/inbox.hpp"

namespace swarmpi {

/// Passes and updates without arithmetic; boundary tensors have their real size and undefined
/// content.
class NullCompute final : public Compute {
 public:
  NullCompute(const RunPlan& plan, const BoundaryBytes& bytes, PayloadPool& payloads, Inbox& inbox)
      : plan_(plan), bytes_(bytes), payloads_(payloads), inbox_(inbox) {}
  void start(Job job) override;

 private:
  JobResult run(const ForwardJob& job);
  JobResult run(const BackwardJob& job);
  JobResult run(const ShareJob& job);
  JobResult run(const ReduceJob& job);
  JobResult run(const PlaceJob& job);
  JobResult run(const GatherJob& job);
  JobResult run(const PrepareJob& job);
  JobResult run(const ReadJob& job);
  JobResult run(const WriteJob& job);
  JobResult run(const DropJob& job);
  JobResult run(const TryJob& job);
  JobResult run(const ApplyJob& job);
  JobResult run(const UpdateJob& job);
  JobResult run(const PlaceWeightsJob& job);
  JobResult run(const CopyWeightsJob& job);
  PayloadRef room(std::int64_t size_bytes);
  PayloadRef weights(StageId stage, const BlockRange& blocks);
  std::size_t tensors(StageId stage) const;

  const RunPlan& plan_;
  BoundaryBytes bytes_;
  PayloadPool& payloads_;
  Inbox& inbox_;
  CoverBook covers_;
};

}  // namespace swarmpi
