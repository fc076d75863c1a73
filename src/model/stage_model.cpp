#include "model/stage_model.hpp"

#include "core/check.hpp"
#include "model/activations.hpp"
#include "model/gradients.hpp"
#include "model/passes.hpp"
#include "model/stage_gradient.hpp"
#include "model/stage_shape.hpp"
#include "model/stage_state.hpp"
#include "model/stage_tensors.hpp"

namespace swarmpi {

struct StageModel::Impl {
  Impl(const Config& deck, StageSpec stage, kernels::Backend& kernels, std::int64_t slot_count)
      : config(deck),
        spec(std::move(stage)),
        backend(kernels),
        shape(config, spec),
        tensors(spec),
        state(config, tensors, backend),
        gradient(tensors, backend, kernels::fixed_point_bits(config.train.microbatches)),
        passes(shape, spec, tensors, backend),
        // In the last stage forward and backward are one: nothing waits in between.
        slots(shape, backend, spec.has_head ? 0 : slot_count) {}

  struct Microbatch {
    MicrobatchId id;
    std::span<const std::int32_t> tokens, targets;
    kernels::ConstMatrix x;
  };
  /// Leaves gradients of tensors with `gradients`; returns the loss in nats (last stage), else 0.
  double backward(const Microbatch& microbatch, kernels::ConstMatrix dy, kernels::Matrix dx,
                  MicrobatchGradients& gradients);
  /// Drops what passes and reductions have left, beside the sums.
  void forget_progress() {
    slots.release_all();
    gradient.clear();
  }

  Config config;
  StageSpec spec;
  kernels::Backend& backend;
  StageShape shape;
  StageTensors tensors;
  StageState state;
  StageGradient gradient;
  Passes passes;
  ActivationSlots slots;
};

StageModel::StageModel(const Config& config, StageSpec spec, kernels::Backend& backend,
                       std::int64_t slots)
    : impl_(std::make_unique<Impl>(config, std::move(spec), backend, slots)) {}
StageModel::~StageModel() = default;

const StageSpec& StageModel::spec() const { return impl_->spec; }

void StageModel::initialize() {
  impl_->forget_progress();
  impl_->state.initialize();
}

std::vector<TensorState> StageModel::state() { return impl_->state.views(); }

void StageModel::loaded(Step step) {
  impl_->forget_progress();
  impl_->state.loaded(step);
}

void StageModel::prepare(Step step) {
  impl_->forget_progress();
  impl_->state.prepare(step);
}

std::size_t StageModel::tensor_bytes(std::size_t place) const {
  return impl_->state.state_bytes(place);
}

void StageModel::read_tensor(std::size_t place, float* state) const {
  impl_->state.read(place, state);
}

std::uint64_t StageModel::write_tensor(std::size_t place, Step step, const float* state) {
  return impl_->state.write(place, step, state);
}

double StageModel::forward(const WorkId& work, std::span<const std::int32_t> tokens,
                           std::span<const std::int32_t> targets, kernels::ConstMatrix x,
                           kernels::Matrix y) {
  Impl& m = *impl_;
  const MicrobatchId& microbatch = work.microbatch;
  const WeightVersion& weights = m.state.weights_for(microbatch.step);
  Activations& activations =
      microbatch.purpose == Purpose::train ? m.slots.claim(microbatch) : m.slots.scratch();
  m.passes.forward(activations, weights, tokens, x);
  if (m.spec.has_head) return m.passes.loss(weights, targets);
  copy_rows(m.backend, y, m.passes.output());
  return 0;
}

double StageModel::Impl::backward(const Microbatch& microbatch, kernels::ConstMatrix dy,
                                  kernels::Matrix dx, MicrobatchGradients& gradients) {
  const auto& [id, text, targets, x] = microbatch;
  SWARMPI_CHECK(id.purpose == Purpose::train, "validation has no backward pass");
  const WeightVersion& weights = state.weights_for(id.step);
  Activations* activations = slots.find(id);
  if (activations == nullptr) {
    activations = &slots.scratch();
    passes.forward(*activations, weights, text, x);
  }
  double loss_nats = 0;
  if (spec.has_head) {
    loss_nats = passes.loss_backward(weights, targets, gradients);
  } else {
    passes.set_output_gradient(dy);
  }
  passes.backward(*activations, weights, text, gradients);
  if (!spec.has_embedding) copy_rows(backend, dx, passes.input_gradient());
  slots.release(id);
  return loss_nats;
}

StageModel::BackwardAnswer StageModel::backward(const WorkId& work,
                                                std::span<const std::int32_t> tokens,
                                                std::span<const std::int32_t> targets,
                                                kernels::ConstMatrix x, kernels::ConstMatrix dy,
                                                kernels::Matrix dx, const Exponents& exponents) {
  Impl& m = *impl_;
  MicrobatchGradients gradients(m.passes.gradient_buffers(), m.tensors, m.backend,
                                m.state.sums_of(work.microbatch.step), exponents,
                                kernels::fixed_point_bits(m.config.train.microbatches));
  BackwardAnswer answer;
  answer.loss_nats = m.backward({work.microbatch, tokens, targets, x}, dy, dx, gradients);
  answer.contributions = gradients.take();
  return answer;
}

double StageModel::backward_again(const WorkId& work, std::span<const std::int32_t> tokens,
                                  std::span<const std::int32_t> targets, kernels::ConstMatrix x,
                                  kernels::ConstMatrix dy, kernels::Matrix dx) {
  Impl& m = *impl_;
  MicrobatchGradients unwanted(m.passes.gradient_buffers(), m.tensors, m.backend);
  return m.backward({work.microbatch, tokens, targets, x}, dy, dx, unwanted);
}

void StageModel::logits(std::span<const std::int32_t> tokens, kernels::ConstMatrix x,
                        kernels::Matrix logits) {
  Impl& m = *impl_;
  SWARMPI_CHECK(m.spec.has_head, "only the last stage makes logits");
  const WeightVersion& weights = m.state.newest_weights();
  m.passes.forward(m.slots.scratch(), weights, tokens, x);
  m.passes.logits(weights, logits);
}

const std::vector<Block>& StageModel::blocks() const { return impl_->gradient.blocks(); }

PayloadRef StageModel::share(Step step, const BlockRange& blocks,
                             std::span<const PayloadRef> addends, PayloadPool& payloads) {
  return impl_->gradient.share(impl_->state.sums_of(step).data(), blocks, addends, payloads);
}

std::vector<double> StageModel::reduce(Step step, const BlockRange& blocks,
                                       std::span<const PayloadRef> addends,
                                       const Exponents& exponents, std::int64_t tokens) {
  StepSums& sums = impl_->state.sums_of(step);
  if (addends.empty()) sums.freeze();
  return impl_->gradient.reduce(sums.data(), blocks, addends, exponents, tokens);
}

std::vector<double> StageModel::reduce(Step step, const Exponents& exponents, std::int64_t tokens) {
  const BlockRange all{0, static_cast<std::int64_t>(blocks().size())};
  const std::vector<double> squares = reduce(step, all, {}, exponents, tokens);
  return sum_by_tensor(blocks(), squares, impl_->tensors.size());
}

void StageModel::place(const BlockRange& blocks, const float* gradient) {
  impl_->gradient.place(blocks, gradient);
}

void StageModel::copy_gradient(const BlockRange& blocks, float* gradient) const {
  impl_->gradient.copy_out(blocks, gradient);
}

std::vector<std::uint64_t> StageModel::apply(const CommitRecord& record,
                                             const std::vector<bool>& tensors) {
  impl_->slots.release_through(record.step);
  return impl_->state.apply(
      record, [this](std::size_t place) { return impl_->gradient.of(place); }, tensors);
}

std::vector<std::uint64_t> StageModel::tensor_hashes() const {
  return impl_->state.tensor_hashes();
}

FlippedBit StageModel::flip(std::uint64_t seed) { return impl_->state.flip(seed); }

std::int64_t StageModel::memory_bytes() const {
  return impl_->state.memory_bytes() + impl_->gradient.memory_bytes() +
         impl_->passes.memory_bytes() + impl_->slots.memory_bytes();
}

}  // namespace swarmpi
