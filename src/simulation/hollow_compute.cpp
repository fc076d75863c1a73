#include "simulation/hollow_compute.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "kernels/fixed_point.hpp"
#include "kernels/packed_sums.hpp"
#include "protocol/messages/all_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "simulation/event_trace.hpp"
#include "simulation/synthetic_model.hpp"

namespace swarmpi {
namespace {

enum Keyed : std::uint8_t { kLoss, kGradient, kTensor, kState, kWeights };

// Least bits b with count <= 2^b.
int bits_of(std::int64_t count) {
  return count <= 1 ? 0 : 64 - std::countl_zero(static_cast<std::uint64_t>(count - 1));
}

}  // namespace

// ---- What all have in common

HollowModel::HollowModel(const Config& config, const RunPlan& plan)
    : plan_(plan),
      boundary_(boundary_bytes(config)),
      recomputes_(config.compute.recompute == Recompute::always ||
                  config.swarm.method == Method::gpipe) {
  for (std::int32_t s = 0; s < plan.stages(); ++s) {
    Stage stage{plan.stage_tensors[static_cast<std::size_t>(s)], {0}};
    for (const Block& block : cut_into_blocks(plan.elements_in(StageId(s)))) {
      stage.elements_before.push_back(stage.elements_before.back() + block.count);
    }
    stages_.push_back(std::move(stage));
  }
}

std::int64_t HollowModel::elements(StageId stage, const BlockRange& blocks) const {
  const std::vector<std::int64_t>& before = of(stage).elements_before;
  return before.at(static_cast<std::size_t>(blocks.end)) -
         before.at(static_cast<std::size_t>(blocks.first));
}

std::int64_t HollowModel::elements(StageId stage) const { return of(stage).elements_before.back(); }

PayloadRef HollowModel::payload(std::int64_t size_bytes) {
  PayloadRef& payload = payloads_[size_bytes];
  if (!payload) payload = Payload::hollow(static_cast<std::size_t>(size_bytes));
  return payload;
}

// Gradients reach the exponent that their step was given, so the headroom is not in use.
PayloadRef HollowModel::packed_sums(StageId stage, const BlockRange& blocks,
                                    std::int64_t microbatches) {
  const int bits = kernels::fixed_point_bits(plan_.train.microbatches) - kernels::kHeadroomBits +
                   1 + bits_of(microbatches);
  const std::size_t packed =
      kernels::packed_frame_bytes(blocks.end - blocks.first) +
      kernels::packed_block_bytes(elements(stage, blocks), static_cast<std::uint8_t>(bits));
  return payload(static_cast<std::int64_t>(packed));
}

PayloadRef HollowModel::floats(StageId stage, const BlockRange& blocks) {
  return payload(elements(stage, blocks) * static_cast<std::int64_t>(sizeof(float)));
}

PayloadRef HollowModel::state(StageId stage, const BlockRange& blocks) {
  const std::int64_t arrays = plan_.delay() + 2;
  return payload(arrays * elements(stage, blocks) * static_cast<std::int64_t>(sizeof(float)));
}

std::uint64_t HollowModel::key(int what, std::int64_t a, std::int64_t b, std::int64_t c) const {
  std::uint64_t bits = mix_bits(plan_.train.seed + static_cast<std::uint64_t>(what));
  for (const std::int64_t value : {a, b, c}) {
    bits = mix_bits(bits ^ static_cast<std::uint64_t>(value));
  }
  return bits;
}

// Step 0 runs the microbatches of step 1.
double HollowModel::loss_nats(const MicrobatchId& microbatch) const {
  const std::int64_t step = std::max<std::int64_t>(microbatch.step.value, 1);
  const std::uint64_t bits =
      key(kLoss, step, microbatch.index, static_cast<std::int64_t>(microbatch.purpose));
  return 1 + static_cast<double>(bits >> 11) * 0x1p-53;
}

std::vector<kernels::Contribution> HollowModel::contributions(StageId stage) const {
  return std::vector<kernels::Contribution>(tensors(stage), {0, false, false});
}

std::vector<double> HollowModel::squares(const BlockRange& blocks) const {
  return std::vector<double>(static_cast<std::size_t>(blocks.end - blocks.first), 0x1p-20);
}

std::uint64_t HollowModel::gradient_hash(StageId stage, Step step, const BlockRange& blocks) const {
  return key(kGradient, stage.value, step.value, blocks.first);
}

std::vector<std::uint64_t> HollowModel::tensor_hashes(StageId stage, Step step) const {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(tensors(stage));
  for (const std::int32_t tensor : of(stage).tensors) {
    hashes.push_back(key(kTensor, tensor, step.value));
  }
  return hashes;
}

std::uint64_t HollowModel::state_hash(StageId stage, Step step, const BlockRange& blocks) const {
  return key(kState, stage.value, step.value, blocks.first);
}

std::uint64_t HollowModel::weight_hash(StageId stage, Step step, const BlockRange& blocks) const {
  return key(kWeights, stage.value, step.value, blocks.first);
}

// ---- One peer

HollowCompute::Stage& HollowCompute::stage(StageId id) {
  const auto [found, fresh] = stages_.try_emplace(id);
  if (fresh) found->second.applied = resumed_;
  return found->second;
}

Status HollowCompute::error(const std::string& what) const {
  return Status::failed(fmt::format("compute of peer {}: {}", self_.value, what));
}

Result<JobResult> HollowCompute::execute(const Job& job) {
  return visit([this](const auto& j) { return run(j); }, job);
}

Result<StageStored> HollowCompute::save(Step step, StageId id) {
  if (stage(id).applied != step.value) {
    return error(fmt::format("stage {} is to be saved as of step {} and stands at {}", id.value,
                             step.value, stage(id).applied));
  }
  const std::int64_t size_bytes =
      static_cast<std::int64_t>(sizeof(float)) * (model_.plan().delay() + 2) * model_.elements(id);
  const BlockRange all{0, 0};
  StoredFile file{fmt::format("stage-{}", id.value), model_.state_hash(id, step, all), size_bytes};
  return StageStored{step, id, std::move(file), model_.tensor_hashes(id, step)};
}

Status HollowCompute::load(StageId id, const ResumeState& state, const Ownership&) {
  stages_[id] = {state.step, {}};
  return {};
}

// Step t computes on the weights after step t - d, which are overwritten by those after step t.
Status HollowCompute::check_weights(const WorkId& work) {
  const Step step = work.microbatch.step;
  const std::int64_t applied = stage(work.stage).applied;
  if (applied >= model_.plan().starts_after(step) && applied < step.value) return {};
  return error(fmt::format("{} was begun with step {} applied", describe(work), applied));
}

Cover HollowCompute::cover_of(StageId id, Step step, const std::vector<PartialSums>& addends) {
  for (const auto& [of, cover] : stage(id).covers) {
    if (of == step) return with_addends(cover, addends);
  }
  return with_addends({}, addends);
}

Result<JobResult> HollowCompute::run(const ForwardJob& job) {
  const WorkId& work = job.work;
  if (Status status = check_weights(work); !status.ok()) return status;
  if (work.stage.value + 1 == model_.plan().stages()) {
    return JobResult(ForwardResult{work, nullptr, model_.loss_nats(work.microbatch)});
  }
  return JobResult(ForwardResult{work, model_.payload(model_.boundary().activations), 0});
}

Result<JobResult> HollowCompute::run(const BackwardJob& job) {
  const WorkId& work = job.work;
  if (Status status = check_weights(work); !status.ok()) return status;
  const bool last = work.stage.value + 1 == model_.plan().stages();
  BackwardResult result{work, nullptr, last ? model_.loss_nats(work.microbatch) : 0, {}};
  result.with_forward = last || model_.recomputes();
  if (work.stage.value > 0) result.input_gradient = model_.payload(model_.boundary().gradients);
  if (!job.add) return JobResult(std::move(result));
  result.contributions = model_.contributions(work.stage);
  auto& covers = stage(work.stage).covers;
  auto open = std::find_if(covers.begin(), covers.end(),
                           [&](const auto& of) { return of.first == work.microbatch.step; });
  if (open == covers.end()) open = covers.insert(open, {work.microbatch.step, {}});
  open->second.add(work.microbatch);
  return JobResult(std::move(result));
}

Result<JobResult> HollowCompute::run(const ShareJob& job) {
  const Cover cover = cover_of(job.stage, job.step, job.addends);
  return JobResult(
      ShareResult{job.seal,
                  job.stage,
                  job.chunk,
                  {model_.packed_sums(job.stage, job.blocks, cover.microbatches), cover}});
}

Result<JobResult> HollowCompute::run(const ReduceJob& job) {
  ReduceResult result{job.seal,
                      job.stage,
                      job.chunk,
                      cover_of(job.stage, job.step, job.addends),
                      model_.squares(job.blocks),
                      nullptr,
                      0};
  if (!job.pass_on) return JobResult(std::move(result));
  result.gradient = model_.floats(job.stage, job.blocks);
  result.hash = model_.gradient_hash(job.stage, job.step, job.blocks);
  return JobResult(std::move(result));
}

Result<JobResult> HollowCompute::run(const PlaceJob& job) {
  if (stage(job.stage).applied + 1 != job.step.value) {
    return error(
        fmt::format("step {} was placed over a gradient that was not applied yet", job.step.value));
  }
  return JobResult(PlaceResult{job.seal, job.stage, job.chunk,
                               model_.gradient_hash(job.stage, job.step, job.blocks)});
}

Result<JobResult> HollowCompute::run(const GatherJob& job) {
  return JobResult(GatherResult{job.seal, job.stage, job.chunk,
                                model_.floats(job.stage, job.blocks),
                                model_.gradient_hash(job.stage, job.step, job.blocks)});
}

Result<JobResult> HollowCompute::run(const ApplyJob& job) {
  Stage& own = stage(job.stage);
  const Step step = job.record->step;
  if (own.applied + 1 != step.value) {
    return error(fmt::format("step {} was applied to stage {}, which stands at step {}", step.value,
                             job.stage.value, own.applied));
  }
  own.applied = step.value;
  std::erase_if(own.covers, [&](const auto& of) { return of.first <= step; });
  ApplyResult result{step, job.stage, {model_.tensor_hashes(job.stage, step), {}}, {}, {}};
  if (model_.plan().swarm.has_owners()) result.hash.weights = result.hash.tensors;
  if (job.partial) {
    for (const BlockRange& piece : job.partial->under_way) {
      result.gradients.push_back(job.record->skipped ? nullptr : model_.floats(job.stage, piece));
    }
  }
  if (model_.plan().train.optimizer == Optimizer::lamb && !job.record->skipped) {
    result.ratios.assign(model_.tensors(job.stage), 1);
  }
  return JobResult(std::move(result));
}

Result<JobResult> HollowCompute::run(const PrepareJob& job) {
  stages_[job.stage] = {job.step.value, {}};
  return JobResult(PrepareResult{job.stage});
}

Result<JobResult> HollowCompute::run(const ReadJob& job) {
  const Step step(stage(job.stage).applied);
  return JobResult(ReadResult{job.stage, job.blocks, model_.state_hash(job.stage, step, job.blocks),
                              model_.state(job.stage, job.blocks)});
}

Result<JobResult> HollowCompute::run(const WriteJob& job) {
  const Stage& own = stage(job.stage);
  if (own.applied != job.step.value + std::ssize(job.missed)) {
    return error(
        fmt::format("stage {} stands at step {} and was given a piece as of step {} with "
                    "{} updates",
                    job.stage.value, own.applied, job.step.value, job.missed.size()));
  }
  WriteResult result{job.stage, job.blocks, true, job.completes, {}};
  result.intact = job.hash == model_.state_hash(job.stage, job.step, job.blocks);
  if (!result.intact) return JobResult(WriteResult{job.stage, job.blocks, false, {}, {}});
  const auto hashes = model_.tensor_hashes(job.stage, Step(own.applied));
  for (const std::int32_t tensor : job.completes) {
    result.tensor_hashes.push_back(hashes.at(static_cast<std::size_t>(tensor)));
  }
  return JobResult(std::move(result));
}

Result<JobResult> HollowCompute::run(const DropJob& job) {
  stages_.erase(job.stage);
  return JobResult(DropResult{job.stage});
}

Result<JobResult> HollowCompute::run(const TryJob& job) { return JobResult(TryResult{job.stage}); }

Result<JobResult> HollowCompute::run(const UpdateJob& job) {
  const Step step = job.record->step;
  return JobResult(WeightsResult{step, job.stage, job.chunk,
                                 job.pass_on ? model_.floats(job.stage, job.blocks) : nullptr,
                                 model_.weight_hash(job.stage, step, job.blocks)});
}

Result<JobResult> HollowCompute::run(const PlaceWeightsJob& job) {
  return JobResult(PlaceWeightsResult{job.step, job.stage, job.chunk,
                                      model_.weight_hash(job.stage, job.step, job.blocks)});
}

Result<JobResult> HollowCompute::run(const CopyWeightsJob& job) {
  return JobResult(WeightsResult{job.step, job.stage, job.chunk,
                                 model_.floats(job.stage, job.blocks),
                                 model_.weight_hash(job.stage, job.step, job.blocks)});
}

}  // namespace swarmpi
