#include "model/stage_model.hpp"

#include <utility>

#include "core/check.hpp"
#include "core/status.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {

StageModel::StageModel(const Config& config, StageSpec spec, kernels::Backend& backend,
                       std::int64_t slots, std::optional<Ownership> ownership)
    : config_(config),
      spec_(std::move(spec)),
      backend_(backend),
      shape_(config_, spec_),
      tensors_(spec_),
      ownership_(ownership),
      gradient_(tensors_, backend_, kernels::fixed_point_bits(config.train.microbatches)),
      state_(config_, tensors_, backend_, owned_slices()),
      collective_out_(room_for_collective()),
      passes_(shape_, spec_, tensors_, backend_),
      // In the last stage forward and backward are one: nothing waits in between.
      slots_(shape_, backend_, spec_.has_head ? 0 : slots) {
  gradient_.own(owned());
}

void StageModel::own(const Ownership& ownership) {
  if (ownership_ != ownership) {
    ownership_ = ownership;
    gradient_.own(owned());
    state_.own(owned_slices());
  }
  forget_progress();
}

BlockRange StageModel::owned() const {
  const BlockRange all{0, std::ssize(blocks())};
  if (!ownership_) return all;
  return owned_ranges(blocks(), ownership_->owners)[static_cast<std::size_t>(ownership_->place)];
}

std::vector<Slice> StageModel::owned_slices() const {
  std::vector<Slice> all;
  for (std::size_t place = 0; place < tensors_.size(); ++place) all.push_back({place, 0, 0});
  const BlockRange blocks = owned();
  if (blocks.first == blocks.end) return all;
  for (const Slice& slice : slices_of(blocks)) all[slice.place] = slice;
  return all;
}

void StageModel::keep_activations(std::int64_t slots) {
  if (!spec_.has_head) slots_.resize(shape_, backend_, slots);
}

void StageModel::forget_progress() {
  slots_.release_all();
  gradient_.clear();
  reduced_hashes_.clear();
}

Status StageModel::initialize() {
  forget_progress();
  return state_.initialize();
}

void StageModel::loaded(Step step) {
  forget_progress();
  state_.loaded(step);
}

void StageModel::prepare(Step step) {
  forget_progress();
  state_.prepare(step);
}

double StageModel::forward(const WorkId& work, std::span<const std::int32_t> tokens,
                           std::span<const std::int32_t> targets, const std::byte* x, std::byte* y,
                           UnderWay* under_way) {
  const MicrobatchId& microbatch = work.microbatch;
  const WeightVersion& weights = state_.weights_for(microbatch.step);
  Activations& activations =
      microbatch.purpose == Purpose::train ? slots_.claim(microbatch) : slots_.scratch();
  passes_.forward(activations, weights, tokens, x);
  double nats = 0;
  if (spec_.has_head) {
    passes_.loss(nats, weights, targets);
  } else {
    passes_.write_output(y);
  }
  finish(under_way);
  return nats;
}

void StageModel::finish(UnderWay* under_way) {
  if (under_way == nullptr) return backend_.finish();
  *under_way = backend_.finish_beside_copies();
}

StageModel::BackwardAnswer StageModel::backward(const Microbatch& microbatch, const std::byte* dy,
                                                std::byte* dx, MicrobatchGradients& gradients,
                                                UnderWay* under_way) {
  const auto& [id, text, targets, x] = microbatch;
  SWARMPI_CHECK(id.purpose == Purpose::train, "validation has no backward pass");
  const WeightVersion& weights = state_.weights_for(id.step);
  BackwardAnswer answer;
  Activations* activations = slots_.find(id);
  if (activations == nullptr) {
    answer.with_forward = true;
    activations = &slots_.scratch();
    passes_.forward(*activations, weights, text, x);
  }
  if (spec_.has_head) {
    passes_.loss_backward(answer.loss_nats, weights, targets, gradients);
  } else {
    passes_.read_output_gradient(dy);
  }
  passes_.backward(*activations, weights, text, gradients);
  if (!spec_.has_embedding) passes_.write_input_gradient(dx);
  finish(under_way);
  slots_.release(id);
  return answer;
}

StageModel::BackwardAnswer StageModel::backward(const WorkId& work,
                                                std::span<const std::int32_t> tokens,
                                                std::span<const std::int32_t> targets,
                                                const std::byte* x, const std::byte* dy,
                                                std::byte* dx, const Exponents& exponents,
                                                UnderWay* under_way) {
  MicrobatchGradients gradients(passes_.gradient_buffers(), tensors_, backend_,
                                state_.sums_of(work.microbatch.step), exponents,
                                kernels::fixed_point_bits(config_.train.microbatches));
  BackwardAnswer answer =
      backward({work.microbatch, tokens, targets, x}, dy, dx, gradients, under_way);
  answer.contributions = gradients.take();
  state_.sums_of(work.microbatch.step).added(work.microbatch);
  return answer;
}

StageModel::BackwardAnswer StageModel::backward_again(const WorkId& work,
                                                      std::span<const std::int32_t> tokens,
                                                      std::span<const std::int32_t> targets,
                                                      const std::byte* x, const std::byte* dy,
                                                      std::byte* dx, UnderWay* under_way) {
  MicrobatchGradients unwanted(passes_.gradient_buffers(), tensors_, backend_);
  return backward({work.microbatch, tokens, targets, x}, dy, dx, unwanted, under_way);
}

void StageModel::logits(std::span<const std::int32_t> tokens, const std::byte* x,
                        kernels::Matrix logits) {
  SWARMPI_CHECK(spec_.has_head, "only the last stage makes logits");
  const WeightVersion& weights = state_.newest_weights();
  passes_.forward(slots_.scratch(), weights, tokens, x);
  passes_.logits(weights, logits);
}

PartialSums StageModel::share(Step step, const BlockRange& blocks,
                              std::span<const PartialSums> addends, PayloadPool& payloads) {
  StepSums& sums = state_.sums_of(step);
  return {gradient_.share(sums.data(), blocks, addends, payloads),
          with_addends(sums.cover(), addends)};
}

StageModel::Reduced StageModel::reduce(Step step, const BlockRange& blocks,
                                       std::span<const PartialSums> addends,
                                       const Exponents& exponents, std::int64_t tokens) {
  StepSums& sums = state_.sums_of(step);
  if (addends.empty()) sums.freeze();
  Reduced reduced{gradient_.reduce(sums.data(), blocks, addends, exponents, tokens),
                  with_addends(sums.cover(), addends)};
  if (has_owners() && !addends.empty()) {
    reduced_hashes_[blocks.first] = gradient_.hash_in_place(blocks);
  }
  return reduced;
}

std::vector<double> StageModel::reduce(Step step, const Exponents& exponents, std::int64_t tokens) {
  const BlockRange all{0, static_cast<std::int64_t>(blocks().size())};
  return sum_by_tensor(blocks(), {reduce(step, all, {}, exponents, tokens).squares},
                       tensors_.size());
}

std::shared_ptr<kernels::Memory> StageModel::room_for_collective() const {
  if (!config_.swarm.has_collectives()) return nullptr;
  return backend_.allocate(static_cast<std::size_t>(tensors_.elements()) * sizeof(std::int64_t));
}

CollectiveArrays StageModel::arrays_for_collective(Step step) {
  SWARMPI_CHECK(collective_out_ != nullptr, "the deck has collectives");
  StepSums& sums = state_.sums_of(step);
  auto keep = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      sums.memory(), collective_out_);
  return {sums.data(), collective_out_->as<std::int64_t>(), tensors_.elements(), sums.cover(),
          std::move(keep)};
}

std::vector<double> StageModel::round_collective(const BlockRange& blocks,
                                                 const Exponents& exponents, std::int64_t tokens) {
  SWARMPI_CHECK(collective_out_ != nullptr, "the deck has collectives");
  return gradient_.round(collective_out_->as<std::int64_t>(), blocks, exponents, tokens);
}

StageState::GradientOf StageModel::gradient_of() {
  return [this](const Slice& slice) { return gradient_.of(slice.place, slice.first, slice.count); };
}

std::uint64_t StageModel::update_chunk(const CommitRecord& record, const BlockRange& blocks) {
  const std::vector<Slice> slices = slices_of(blocks);
  const auto reduced = reduced_hashes_.find(blocks.first);
  const bool is_alone = reduced != reduced_hashes_.end();
  if (is_alone && gradient_.hash_in_place(blocks) != reduced->second) {
    state_.note_damage(slices.front().place);
  }
  return state_.update_owned(slices, record, gradient_of());
}

StateHash StageModel::finish(const CommitRecord& record) {
  slots_.release_through(record.step);
  reduced_hashes_.clear();
  return state_.finish(record);
}

std::vector<std::uint64_t> StageModel::apply(const CommitRecord& record,
                                             const PartialState* partial) {
  slots_.release_through(record.step);
  if (partial == nullptr) return state_.apply(record, gradient_of(), nullptr);
  StageState::Part part{{}, partial->ratios};
  for (const BlockRange& range : partial->here) {
    const std::vector<Slice> slices = slices_of(range);
    part.here.insert(part.here.end(), slices.begin(), slices.end());
  }
  return state_.apply(record, gradient_of(), &part);
}

std::vector<Slice> StageModel::slices_of(const BlockRange& range) const {
  SWARMPI_CHECK(range.first >= 0 && range.first < range.end && range.end <= std::ssize(blocks()),
                "blocks of this stage");
  std::vector<Slice> slices;
  for (std::int64_t b = range.first; b < range.end; ++b) {
    const Block& block = blocks()[static_cast<std::size_t>(b)];
    const auto place = static_cast<std::size_t>(block.tensor);
    if (slices.empty() || slices.back().place != place) slices.push_back({place, block.first, 0});
    slices.back().count += block.count;
  }
  return slices;
}

std::vector<std::string> StageModel::damaged() const {
  std::vector<std::string> names;
  for (const std::size_t place : state_.damaged()) names.push_back(tensors_.info(place).name);
  return names;
}

std::int64_t StageModel::memory_bytes() const {
  const std::size_t out = collective_out_ ? collective_out_->size_bytes() : 0;
  return state_.memory_bytes() + gradient_.memory_bytes() + passes_.memory_bytes() +
         slots_.memory_bytes() + static_cast<std::int64_t>(out);
}

}  // namespace swarmpi
