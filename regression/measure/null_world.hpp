#pragma once
// A virtual world in which everything takes a constant time and nothing is computed: what takes
// real time there is the protocol core.

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/run_plan.hpp"
#include "simulation/models.hpp"

namespace swarmpi {

inline constexpr double kLinkS = 1e-4;
inline constexpr double kForwardS = 1e-3;
inline constexpr double kBackwardS = 2e-3;
inline constexpr double kOtherJobS = 1e-4;
inline constexpr double kDiskS = 1e-3;
inline constexpr double kRecordS = 1e-6;  // many of them are synced together

class SteadyLinks final : public LinkModel {
 public:
  Delivery deliver(PeerId from, PeerId to, const Message&, double) override {
    return {from == to ? 0 : kLinkS, 1};
  }
};

class SteadyCosts final : public CostModel {
 public:
  double seconds(PeerId, const Job& job) override {
    if (holds_alternative<ForwardJob>(job)) return kForwardS;
    if (holds_alternative<BackwardJob>(job)) return kBackwardS;
    return kOtherJobS;
  }
};

class SteadyDisks final : public DiskModel {
 public:
  WriteAnswer write(PeerId, const Action& action) override {
    return {holds_alternative<StoreRecord>(action) ? kRecordS : kDiskS, {}, false};
  }
};

/// Answers at once, and looks at nothing. All payloads are one and the same: the core keeps what
/// crosses a boundary for repairs, as in a real run, but only where there is something to keep.
class NullCompute final : public VirtualCompute {
 public:
  explicit NullCompute(const RunPlan& plan) : plan_(plan) {}

  Result<JobResult> execute(const Job& job) override {
    return visit([this](const auto& j) { return JobResult(run(j)); }, job);
  }
  Result<StageStored> save(Step step, StageId stage) override {
    return StageStored{step, stage, {}, hashes(stage)};
  }
  Status load(StageId, const ResumeState&, const Ownership&) override { return {}; }

 private:
  ForwardResult run(const ForwardJob& job) const {
    const bool last = job.work.stage.value + 1 == plan_.stages();
    return {job.work, last ? nullptr : payload_, 0};
  }
  BackwardResult run(const BackwardJob& job) {
    BackwardResult result{job.work, job.work.stage.value == 0 ? nullptr : payload_, 0, {}};
    if (!job.add) return result;
    covers_.add(job.work);
    result.contributions.resize(tensors(job.work.stage), {0, false, false});
    return result;
  }
  ShareResult run(const ShareJob& job) const {
    return {
        job.seal, job.stage, job.chunk, {payload_, covers_.with(job.stage, job.step, job.addends)}};
  }
  ReduceResult run(const ReduceJob& job) const {
    const auto blocks = static_cast<std::size_t>(job.blocks.end - job.blocks.first);
    const Cover cover = covers_.with(job.stage, job.step, job.addends);
    return {job.seal, job.stage, job.chunk, cover, std::vector<double>(blocks), payload_, 0};
  }
  PlaceResult run(const PlaceJob& job) const { return {job.seal, job.stage, job.chunk, 0}; }
  GatherResult run(const GatherJob& job) const {
    return {job.seal, job.stage, job.chunk, payload_, 0};
  }
  ApplyResult run(const ApplyJob& job) {
    covers_.drop(job.stage, job.record->step);
    const std::size_t under_way = job.partial ? job.partial->under_way.size() : 0;
    return {job.record->step,
            job.stage,
            {hashes(job.stage), {}},
            std::vector<PayloadRef>(under_way),
            {}};
  }
  WeightsResult run(const UpdateJob& job) const {
    return {job.record->step, job.stage, job.chunk, payload_, 0};
  }
  WeightsResult run(const CopyWeightsJob& job) const {
    return {job.step, job.stage, job.chunk, payload_, 0};
  }
  PlaceWeightsResult run(const PlaceWeightsJob& job) const {
    return {job.step, job.stage, job.chunk, 0};
  }
  PrepareResult run(const PrepareJob& job) const { return {job.stage}; }
  ReadResult run(const ReadJob& job) const { return {job.stage, job.blocks, 0, payload_}; }
  WriteResult run(const WriteJob& job) const {
    return {job.stage, job.blocks, true, job.completes,
            std::vector<std::uint64_t>(job.completes.size())};
  }
  DropResult run(const DropJob& job) const { return {job.stage}; }
  TryResult run(const TryJob& job) const { return {job.stage}; }

  std::size_t tensors(StageId stage) const {
    return plan_.stage_tensors.at(static_cast<std::size_t>(stage.value)).size();
  }
  std::vector<std::uint64_t> hashes(StageId stage) const {
    return std::vector<std::uint64_t>(tensors(stage));
  }

  const RunPlan& plan_;
  CoverBook covers_;
  PayloadRef payload_ = std::make_shared<const Payload>(1);
};

}  // namespace swarmpi
