#include "model/inference.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "model/activations.hpp"
#include "model/passes.hpp"
#include "model/stage_shape.hpp"
#include "model/stage_state.hpp"
#include "model/stage_tensors.hpp"

namespace swarmpi {
namespace {

// One sequence, one version of the weights.
Config for_inference(Config config) {
  config.train.microbatch_size = 1;
  config.train.updates = Updates::synchronous;
  return config;
}

std::int64_t rounded_up(std::int64_t tokens, std::int64_t context) {
  constexpr std::int64_t kStep = 32;
  return std::min((tokens + kStep - 1) / kStep * kStep, context);
}

// The passes over so many positions of one sequence.
struct Window {
  Window(StageShape shape, const StageSpec& spec, const StageTensors& tensors,
         kernels::Backend& backend)
      : passes(shape, spec, tensors, backend), slots(shape, backend, 0), tokens(shape.rows) {}

  Passes passes;
  ActivationSlots slots;
  std::vector<std::int32_t> tokens;
};

}  // namespace

struct Inference::Impl {
  Impl(const Config& deck, kernels::Backend& kernels)
      : config(for_inference(deck)),
        spec(partition_model(config.model, 1).front()),
        backend(kernels),
        tensors(spec),
        state(config, tensors, backend),
        mean_and_rstd(backend.allocate(2 * sizeof(float))),
        normed_row(backend.allocate(static_cast<std::size_t>(config.model.width) * sizeof(float))),
        logits_row(backend.allocate(static_cast<std::size_t>(config.model.vocab) * sizeof(float))) {
  }

  Window& window_for(std::int64_t positions) {
    if (window == nullptr || static_cast<std::int64_t>(window->tokens.size()) != positions) {
      StageShape shape(config, spec);
      shape.context = shape.rows = positions;
      window = nullptr;  // its memory first
      window = std::make_unique<Window>(shape, spec, tensors, backend);
    }
    return *window;
  }

  Config config;
  StageSpec spec;
  kernels::Backend& backend;
  StageTensors tensors;
  StageState state;
  std::unique_ptr<Window> window;
  std::unique_ptr<kernels::Memory> mean_and_rstd, normed_row, logits_row;
};

Inference::Inference(const Config& config, kernels::Backend& backend)
    : impl_(std::make_unique<Impl>(config, backend)) {}
Inference::~Inference() = default;

std::vector<TensorState> Inference::weights() {
  std::vector<TensorState> list = impl_->state.views();
  for (TensorState& tensor : list) tensor.moment1 = tensor.moment2 = nullptr;
  return list;
}

void Inference::loaded() { impl_->state.loaded(Step(0)); }

void Inference::next_logits(std::span<const std::int32_t> tokens, std::span<float> logits) {
  Impl& m = *impl_;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const ModelConfig& model = m.config.model;
  SWARMPI_CHECK(count >= 1 && count <= model.context, "a window within the context");
  SWARMPI_CHECK(static_cast<std::int64_t>(logits.size()) == model.vocab, "a logit a word");

  // Attention is causal: what stands behind the last token changes nothing.
  Window& window = m.window_for(rounded_up(count, model.context));
  std::fill(std::copy(tokens.begin(), tokens.end(), window.tokens.begin()), window.tokens.end(), 0);
  const WeightVersion& weights = m.state.newest_weights();
  window.passes.forward(window.slots.scratch(), weights, window.tokens, {});

  const auto tensor = [&](TensorRole role) { return weights.tensors[m.tensors.place(role)]; };
  const kernels::ConstMatrix last(window.passes.output().row(count - 1), 1, model.width);
  const kernels::Matrix normed(m.normed_row->as<float>(), 1, model.width);
  auto* const moments = m.mean_and_rstd->as<float>();
  m.backend.layer_norm_forward(normed, &moments[0], &moments[1], last,
                               tensor(TensorRole::final_norm_weight),
                               tensor(TensorRole::final_norm_bias));
  const kernels::Matrix out(m.logits_row->as<float>(), 1, model.vocab);
  m.backend.linear_forward(
      out, normed, *weights.multiplied[m.tensors.place(TensorRole::head_weight)], nullptr, {});
  std::copy_n(out.data, model.vocab, logits.begin());
}

}  // namespace swarmpi
