#include "model/inference.hpp"

#include <algorithm>
#include <utility>

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
      : passes(shape, spec, tensors, backend), slots(shape, backend, 0) {}

  Passes passes;
  ActivationSlots slots;
};

// One stage of the model, as the deck cuts it where that changes bits; else all of it.
struct InferenceStage {
  InferenceStage(const Config& config, StageSpec its_spec, kernels::Backend& backend)
      : spec(std::move(its_spec)), tensors(spec), state(config, tensors, backend) {}

  StageSpec spec;
  StageTensors tensors;
  StageState state;
  std::unique_ptr<Window> window;
};

std::vector<StageSpec> specs_for_inference(const Config& config) {
  return config.swarm.cuts_matter() ? partition_model(config) : partition_model(config.model, 1);
}

}  // namespace

struct Inference::Impl {
  Impl(const Config& deck, kernels::Backend& kernels)
      : config(for_inference(deck)),
        backend(kernels),
        mean_and_rstd(backend.allocate(2 * sizeof(float))),
        normed_row(backend.allocate(static_cast<std::size_t>(config.model.width) * sizeof(float))),
        logits_row(backend.allocate(static_cast<std::size_t>(config.model.vocab) * sizeof(float))) {
    for (StageSpec& spec : specs_for_inference(config)) {
      stages.push_back(std::make_unique<InferenceStage>(config, std::move(spec), backend));
    }
  }

  /// All tokens have so many positions from now on.
  void set_positions(std::int64_t positions) {
    if (static_cast<std::int64_t>(tokens.size()) == positions) return;
    tokens.resize(static_cast<std::size_t>(positions));
    for (const auto& stage : stages) {
      StageShape shape(config, stage->spec);
      shape.context = shape.rows = positions;
      stage->window = nullptr;  // its memory first
      stage->window = std::make_unique<Window>(shape, stage->spec, stage->tensors, backend);
      boundary.resize(shape.activations_format().size_bytes());
    }
  }

  Config config;
  kernels::Backend& backend;
  std::vector<std::unique_ptr<InferenceStage>> stages;
  std::vector<std::int32_t> tokens;
  std::vector<std::byte> boundary;  // what crosses the cut that the passes are at
  std::unique_ptr<kernels::Memory> mean_and_rstd, normed_row, logits_row;
};

Inference::Inference(const Config& config, kernels::Backend& backend)
    : impl_(std::make_unique<Impl>(config, backend)) {}
Inference::~Inference() = default;

std::vector<TensorState> Inference::weights() {
  std::vector<TensorState> list;
  for (const auto& stage : impl_->stages) {
    for (TensorState& tensor : stage->state.views()) {
      tensor.moment1 = tensor.moment2 = nullptr;
      list.push_back(std::move(tensor));
    }
  }
  return list;
}

void Inference::loaded() {
  for (const auto& stage : impl_->stages) stage->state.loaded(Step(0));
}

void Inference::next_logits(std::span<const std::int32_t> tokens, std::span<float> logits) {
  Impl& m = *impl_;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const ModelConfig& model = m.config.model;
  SWARMPI_CHECK(count >= 1 && count <= model.context, "a window within the context");
  SWARMPI_CHECK(static_cast<std::int64_t>(logits.size()) == model.vocab, "a logit a word");

  // Attention is causal: what stands behind the last token changes nothing, but for the scales of
  // codecs with blocks.
  m.set_positions(rounded_up(count, model.context));
  std::fill(std::copy(tokens.begin(), tokens.end(), m.tokens.begin()), m.tokens.end(), 0);
  for (const auto& stage : m.stages) {
    Passes& passes = stage->window->passes;
    passes.forward(stage->window->slots.scratch(), stage->state.newest_weights(), m.tokens,
                   m.boundary.data());
    if (stage->spec.has_head) break;
    passes.write_output(m.boundary.data());
    m.backend.finish();
  }

  const InferenceStage& last_stage = *m.stages.back();
  const WeightVersion& weights = last_stage.state.newest_weights();
  const auto place = [&](TensorRole role) { return last_stage.tensors.place(role); };
  const auto tensor = [&](TensorRole role) { return weights.tensors[place(role)]; };
  const kernels::ConstMatrix last(last_stage.window->passes.output().row(count - 1), 1,
                                  model.width);
  const kernels::Matrix normed(m.normed_row->as<float>(), 1, model.width);
  auto* const moments = m.mean_and_rstd->as<float>();
  m.backend.layer_norm_forward(normed, &moments[0], &moments[1], last,
                               tensor(TensorRole::final_norm_weight),
                               tensor(TensorRole::final_norm_bias));
  const kernels::Matrix out(m.logits_row->as<float>(), 1, model.vocab);
  m.backend.linear_forward(out, normed, *weights.multiplied[place(TensorRole::head_weight)],
                           nullptr, {});
  m.backend.copy_out(logits.data(), out);
  m.backend.finish();
}

}  // namespace swarmpi
