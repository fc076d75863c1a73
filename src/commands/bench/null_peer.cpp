#include "commands/bench/null_peer.hpp"

#include <variant>

#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/compute_port.hpp"

namespace swarmpi {

void NullCompute::start(Job job) {
  inbox_.post(JobFinished{visit([this](const auto& j) { return run(j); }, job), 0});
}

JobResult NullCompute::run(const ForwardJob& job) {
  const bool last = job.work.stage.value + 1 == plan_.stages();
  return ForwardResult{job.work, last ? nullptr : room(bytes_.activations), 0};
}

JobResult NullCompute::run(const BackwardJob& job) {
  const bool first = job.work.stage.value == 0;
  BackwardResult result{job.work, first ? nullptr : room(bytes_.gradients), 0, {}};
  if (!job.add) return result;
  covers_.add(job.work);
  result.contributions.resize(tensors(job.work.stage), {0, false, false});
  return result;
}

JobResult NullCompute::run(const ShareJob& job) {
  return ShareResult{
      job.seal, job.stage, job.chunk, {nullptr, covers_.with(job.stage, job.step, job.addends)}};
}

JobResult NullCompute::run(const ReduceJob& job) {
  const std::vector<double> squares(static_cast<std::size_t>(job.blocks.end - job.blocks.first));
  const Cover cover = covers_.with(job.stage, job.step, job.addends);
  return ReduceResult{job.seal, job.stage, job.chunk, cover, squares, nullptr, 0};
}

JobResult NullCompute::run(const PlaceJob& job) {
  return PlaceResult{job.seal, job.stage, job.chunk, 0};
}

JobResult NullCompute::run(const GatherJob& job) {
  return GatherResult{job.seal, job.stage, job.chunk, nullptr, 0};
}

JobResult NullCompute::run(const PrepareJob& job) { return PrepareResult{job.stage}; }

JobResult NullCompute::run(const ReadJob& job) {
  return ReadResult{job.stage, job.blocks, 0, nullptr};
}

JobResult NullCompute::run(const WriteJob& job) {
  return WriteResult{job.stage, job.blocks, true, job.completes,
                     std::vector<std::uint64_t>(job.completes.size())};
}

JobResult NullCompute::run(const DropJob& job) { return DropResult{job.stage}; }
JobResult NullCompute::run(const TryJob& job) { return TryResult{job.stage}; }

JobResult NullCompute::run(const ApplyJob& job) {
  covers_.drop(job.stage, job.record->step);
  const std::size_t under_way = job.partial ? job.partial->under_way.size() : 0;
  return ApplyResult{job.record->step,
                     job.stage,
                     {std::vector<std::uint64_t>(tensors(job.stage)), {}},
                     std::vector<PayloadRef>(under_way),
                     {}};
}

JobResult NullCompute::run(const UpdateJob& job) {
  return WeightsResult{job.record->step, job.stage, job.chunk, weights(job.stage, job.blocks), 0};
}
JobResult NullCompute::run(const PlaceWeightsJob& job) {
  return PlaceWeightsResult{job.step, job.stage, job.chunk, 0};
}
JobResult NullCompute::run(const CopyWeightsJob& job) {
  return WeightsResult{job.step, job.stage, job.chunk, weights(job.stage, job.blocks), 0};
}

PayloadRef NullCompute::weights(StageId stage, const BlockRange& blocks) {
  const std::vector<Block> all = cut_into_blocks(plan_.elements_in(stage));
  return room(elements_of(all, blocks) * static_cast<std::int64_t>(sizeof(float)));
}

PayloadRef NullCompute::room(std::int64_t size_bytes) {
  return payloads_.take(static_cast<std::size_t>(size_bytes));
}

std::size_t NullCompute::tensors(StageId stage) const {
  return plan_.stage_tensors.at(static_cast<std::size_t>(stage.value)).size();
}

}  // namespace swarmpi
