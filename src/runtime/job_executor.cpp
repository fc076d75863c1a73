#include "runtime/job_executor.hpp"

#include <fmt/core.h>

#include <utility>

#include "core/check.hpp"
#include "kernels/rounding_mode.hpp"
#include "model/boundary.hpp"
#include "protocol/messages/all_jobs.hpp"

namespace swarmpi {
namespace {

/// What a payload holds; null for none.
const std::byte* content(const PayloadRef& payload, std::size_t size_bytes) {
  if (!payload) return nullptr;
  SWARMPI_CHECK(payload->size_bytes() == size_bytes, "a boundary of the deck's size");
  payload->wait();  // this peer may have made it just now
  return payload->data();
}

Status damage_error(const ApplyJob& job, PeerId self, const std::vector<std::string>& tensors) {
  std::string names = tensors.front();
  if (tensors.size() > 1) names += fmt::format(" and {} more tensors", tensors.size() - 1);
  return Status::failed(
      fmt::format("the state of {} of stage {} at peer {} was damaged in memory before step {}: "
                  "check the memory of this peer's host, and resume from the last checkpoint",
                  names, job.stage.value, self.value, job.record->step.value));
}

}  // namespace

TokenSource tokens_of(const Dataset& data) {
  return [&data](const MicrobatchId& id, std::span<std::int32_t> inputs,
                 std::span<std::int32_t> targets) { return data.microbatch(id, inputs, targets); };
}

JobExecutor::JobExecutor(PeerId self, const Config& config, TokenSource tokens,
                         PayloadPool& payloads, std::vector<std::unique_ptr<StageModel>> stages,
                         std::optional<Step> flip_after, StageFactory factory)
    : self_(self),
      tokens_(std::move(tokens)),
      payloads_(payloads),
      activations_bytes_(static_cast<std::size_t>(boundary_bytes(config).activations)),
      gradients_bytes_(static_cast<std::size_t>(boundary_bytes(config).gradients)),
      flip_after_(flip_after),
      fault_seed_(config.faults.seed),
      factory_(std::move(factory)),
      inputs_(static_cast<std::size_t>(config.train.microbatch_size * config.model.context)),
      targets_(inputs_.size()) {
  for (auto& stage : stages) {
    const StageId id(stage->spec().stage);
    stages_[id] = std::move(stage);
  }
}

StageModel& JobExecutor::stage(StageId stage) {
  const std::lock_guard lock(mutex_);
  const auto found = stages_.find(stage);
  SWARMPI_CHECK(found != stages_.end(),
                "this peer does not serve stage " + std::to_string(stage.value));
  return *found->second;
}

std::optional<CollectiveArrays> JobExecutor::arrays_for_collective(StageId stage, Step step) {
  StageModel* model = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = stages_.find(stage);
    if (found == stages_.end()) return std::nullopt;
    model = found->second.get();
  }
  return model->arrays_for_collective(step);
}

StageModel* JobExecutor::room_for(StageId stage, const Ownership& ownership) {
  std::vector<StageModel*> others;
  {
    const std::lock_guard lock(mutex_);
    const auto found = stages_.find(stage);
    if (found != stages_.end()) {
      StageModel* const held = found->second.get();
      const std::optional<Ownership>& before = held->ownership();
      if (!before) return held;
      if (factory_.has_room && !factory_.has_room(stage, ownership, before)) return nullptr;
      held->own(ownership);
      return held;
    }
    for (const auto& [id, other] : stages_) others.push_back(other.get());
  }
  SWARMPI_CHECK(factory_.make, "this peer cannot add stages");
  if (factory_.slots_alone) {
    for (StageModel* other : others) other->keep_activations(0);
  }
  if (factory_.has_room && !factory_.has_room(stage, ownership, {})) return nullptr;
  std::unique_ptr<StageModel> made = factory_.make(stage, ownership);
  if (others.empty()) use_memory(stage, *made);
  const std::lock_guard lock(mutex_);
  return (stages_[stage] = std::move(made)).get();
}

Result<JobResult> JobExecutor::execute(const Job& job) {
  SWARMPI_CHECK(kernels::rounding_mode_is_default(),
                "a library has changed the rounding mode of the floating-point unit");
  if (Status status = load_tokens(job); !status.ok()) return status;
  return visit([this](const auto& j) -> Result<JobResult> { return run(j); }, job);
}

Status JobExecutor::load_tokens(const Job& job) {
  const auto load = [this](const MicrobatchId& id) { return tokens_(id, inputs_, targets_); };
  if (const auto* forward = get_if<ForwardJob>(&job)) return load(forward->work.microbatch);
  if (const auto* backward = get_if<BackwardJob>(&job)) return load(backward->work.microbatch);
  if (const auto* trial = get_if<TryJob>(&job)) {
    if (factory_.can_read_data && !factory_.can_read_data()) {
      return Status::stopped("the data cannot be read any more");
    }
    return load(trial->microbatch);
  }
  return {};
}

class JobExecutor::Boundary {
 public:
  /// Of no bytes: nothing crosses a cut.
  Boundary(JobExecutor& executor, std::size_t size_bytes)
      : copies_(executor.copies_),
        payload_(size_bytes == 0 ? nullptr : executor.payloads_.take(size_bytes)) {}

  std::byte* data() { return payload_ ? payload_->data() : nullptr; }
  StageModel::UnderWay* under_way() { return copies_ == nullptr ? nullptr : &under_way_; }
  PayloadRef hand_on() {
    if (under_way_ != nullptr) copies_->land(payload_, std::move(under_way_));
    return payload_;
  }

 private:
  PayloadCopies* copies_;
  std::shared_ptr<Payload> payload_;
  StageModel::UnderWay under_way_;
};

JobResult JobExecutor::run(const ForwardJob& job) {
  StageModel& model = stage(job.work.stage);
  ForwardResult result{job.work, nullptr, 0};
  const std::byte* const x = content(job.input, activations_bytes_);
  Boundary y(*this, model.spec().has_head ? 0 : activations_bytes_);
  result.loss_nats = model.forward(job.work, inputs_, targets_, x, y.data(), y.under_way());
  result.output = y.hand_on();
  return result;
}

JobResult JobExecutor::run(const BackwardJob& job) {
  StageModel& model = stage(job.work.stage);
  BackwardResult result{job.work, nullptr, 0, {}};
  const std::byte* const x = content(job.input, activations_bytes_);
  const std::byte* const dy = content(job.output_gradient, gradients_bytes_);
  Boundary dx(*this, model.spec().has_embedding ? 0 : gradients_bytes_);
  auto answer =
      job.add ? model.backward(job.work, inputs_, targets_, x, dy, dx.data(), *job.exponents,
                               dx.under_way())
              : model.backward_again(job.work, inputs_, targets_, x, dy, dx.data(), dx.under_way());
  result.input_gradient = dx.hand_on();
  result.loss_nats = answer.loss_nats;
  result.contributions = std::move(answer.contributions);
  result.with_forward = answer.with_forward;
  return result;
}

JobResult JobExecutor::run(const ShareJob& job) {
  return ShareResult{job.seal, job.stage, job.chunk,
                     stage(job.stage).share(job.step, job.blocks, job.addends, payloads_)};
}

JobResult JobExecutor::run(const ReduceJob& job) {
  if (job.collective) return round_collective(job);
  StageModel& model = stage(job.stage);
  ReduceResult result{job.seal, job.stage, job.chunk, {}, {}, nullptr, 0};
  auto reduced = model.reduce(job.step, job.blocks, job.addends, *job.exponents, job.tokens);
  result.cover = reduced.cover;
  result.squares = std::move(reduced.squares);
  if (!job.pass_on) return result;
  result.gradient = copy_of_gradient(model, job.blocks);
  result.hash = model.gradient_hash(job.blocks, result.gradient->as<float>());
  return result;
}

JobResult JobExecutor::round_collective(const ReduceJob& job) {
  StageModel& model = stage(job.stage);
  ReduceResult result{job.seal, job.stage, job.chunk, {}, {}, nullptr, 0};
  result.squares.resize(static_cast<std::size_t>(job.blocks.end - job.blocks.first));
  std::optional<Cover> cover;
  if (collective_results_ != nullptr) {
    cover = collective_results_->find(job.stage, *job.collective, job.seal);
  }
  // If the seal is void by now another collective may have the place. A cover of nothing counts for
  // nobody.
  if (!cover) return result;
  result.cover = *cover;
  result.squares = model.round_collective(job.blocks, *job.exponents, job.tokens);
  if (job.pass_on) {
    result.gradient = copy_of_gradient(model, job.blocks);
    result.hash = model.gradient_hash(job.blocks, result.gradient->as<float>());
  } else {
    result.hash = model.hash_in_place(job.blocks);
  }
  return result;
}

JobResult JobExecutor::run(const PlaceJob& job) {
  StageModel& model = stage(job.stage);
  const auto elements = static_cast<std::size_t>(elements_of(model.blocks(), job.blocks));
  SWARMPI_CHECK(job.gradient->size_bytes() == elements * sizeof(float),
                "a reduced chunk of another size than its blocks");
  return PlaceResult{job.seal, job.stage, job.chunk,
                     model.place(job.blocks, job.gradient->as<float>())};
}

JobResult JobExecutor::run(const GatherJob& job) {
  const StageModel& model = stage(job.stage);
  const PayloadRef gradient = copy_of_gradient(model, job.blocks);
  return GatherResult{job.seal, job.stage, job.chunk, gradient,
                      model.gradient_hash(job.blocks, gradient->as<float>())};
}

Result<JobResult> JobExecutor::run(const ApplyJob& job) {
  StageModel& model = stage(job.stage);
  ApplyResult result{job.record->step, job.stage, {}, {}, {}};
  const PartialState* const partial = job.partial ? &*job.partial : nullptr;
  if (partial != nullptr) {
    for (const BlockRange& piece : partial->under_way) {
      result.gradients.push_back(job.record->skipped ? nullptr : copy_of_gradient(model, piece));
    }
  }
  if (model.has_owners()) {
    result.hash = model.finish(*job.record);
  } else {
    result.hash.tensors = model.apply(*job.record, partial);
    result.ratios = model.trust_ratios();
  }
  if (const auto damaged = model.damaged(); !damaged.empty()) {
    return damage_error(job, self_, damaged);
  }
  if (partial == nullptr && flip_after_ == job.record->step) {
    flip_after_.reset();
    model.flip(fault_seed_);
  }
  return JobResult(std::move(result));
}

JobResult JobExecutor::run(const UpdateJob& job) {
  StageModel& model = stage(job.stage);
  WeightsResult result{job.record->step, job.stage, job.chunk, nullptr, 0};
  result.hash = model.update_chunk(*job.record, job.blocks);
  if (job.pass_on) result.weights = copy_of_weights(model, job.blocks);
  return result;
}

JobResult JobExecutor::run(const CopyWeightsJob& job) {
  const StageModel& model = stage(job.stage);
  return WeightsResult{job.step, job.stage, job.chunk, copy_of_weights(model, job.blocks),
                       model.weights_hash(job.blocks)};
}

PayloadRef JobExecutor::copy_of_weights(const StageModel& model, const BlockRange& blocks) {
  const auto elements = static_cast<std::size_t>(elements_of(model.blocks(), blocks));
  const auto weights = payloads_.take(elements * sizeof(float));
  model.copy_weights(blocks, weights->as<float>());
  return weights;
}

JobResult JobExecutor::run(const PlaceWeightsJob& job) {
  StageModel& model = stage(job.stage);
  const auto elements = static_cast<std::size_t>(elements_of(model.blocks(), job.blocks));
  SWARMPI_CHECK(job.weights->size_bytes() == elements * sizeof(float),
                "weights of a chunk of another size than its blocks");
  return PlaceWeightsResult{job.step, job.stage, job.chunk,
                            model.place_weights(job.step, job.blocks, job.weights->as<float>())};
}

JobResult JobExecutor::run(const PrepareJob& job) {
  StageModel* const model = room_for(job.stage);
  if (model == nullptr) {
    use_memory_alone();
    return PrepareResult{job.stage, false};
  }
  model->prepare(job.step);
  return PrepareResult{job.stage};
}

JobResult JobExecutor::run(const ReadJob& job) {
  const StageModel& model = stage(job.stage);
  const auto state = payloads_.take(model.piece_bytes(job.blocks));
  const std::uint64_t hash = model.read_piece(job.blocks, state->as<float>());
  return ReadResult{job.stage, job.blocks, hash, state};
}

JobResult JobExecutor::run(const WriteJob& job) {
  StageModel& model = stage(job.stage);
  SWARMPI_CHECK(job.state->size_bytes() == model.piece_bytes(job.blocks),
                "a piece of the state of another size");
  WriteResult result{job.stage, job.blocks, false, {}, {}};
  result.intact =
      model.write_piece(job.blocks, job.step, job.hash, job.state->as<float>(), job.missed);
  if (!result.intact) return result;
  result.completed = job.completes;
  for (const std::int32_t tensor : job.completes) {
    result.tensor_hashes.push_back(model.complete_tensor(static_cast<std::size_t>(tensor)));
  }
  return result;
}

JobResult JobExecutor::run(const DropJob& job) {
  {
    const std::lock_guard lock(mutex_);
    stages_.erase(job.stage);
  }
  use_memory_alone();
  return DropResult{job.stage};
}

void JobExecutor::use_memory_alone() {
  StageModel* alone = nullptr;  // stays: no stage is loaded while a job runs
  {
    const std::lock_guard lock(mutex_);
    if (stages_.size() == 1) alone = stages_.begin()->second.get();
  }
  if (alone != nullptr) use_memory(StageId(alone->spec().stage), *alone);
}

JobResult JobExecutor::run(const TryJob& job) { return TryResult{job.stage}; }

void JobExecutor::use_memory(StageId id, StageModel& stage) const {
  if (factory_.slots_alone) stage.keep_activations(factory_.slots_alone(id));
}

PayloadRef JobExecutor::copy_of_gradient(const StageModel& model, const BlockRange& blocks) {
  const auto elements = static_cast<std::size_t>(elements_of(model.blocks(), blocks));
  const auto gradient = payloads_.take(elements * sizeof(float));
  model.copy_gradient(blocks, gradient->as<float>());
  return gradient;
}

}  // namespace swarmpi
