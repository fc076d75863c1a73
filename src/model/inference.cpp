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

// One version of the weights.
Config for_inference(Config config) {
  config.train.updates = Updates::synchronous;
  return config;
}

std::int64_t rounded_up(std::int64_t tokens, std::int64_t context) {
  constexpr std::int64_t kStep = 32;
  return std::min((tokens + kStep - 1) / kStep * kStep, context);
}

std::vector<StageSpec> specs_for_inference(const Config& config) {
  return config.swarm.cuts_matter() ? partition_model(config) : partition_model(config.model, 1);
}

}  // namespace

// Not in the anonymous namespace: a class of external linkage has members of these types.
//
// The passes over so many positions of each sequence.
struct InferenceWindow {
  InferenceWindow(StageShape shape, const StageSpec& spec, const StageTensors& tensors,
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
  std::unique_ptr<InferenceWindow> window;
};

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

  /// Tokens are so many sequences of so many positions from now on.
  void set_shape(std::int64_t new_sequences, std::int64_t new_positions) {
    if (sequences == new_sequences && positions == new_positions) return;
    sequences = new_sequences;
    positions = new_positions;
    tokens.resize(static_cast<std::size_t>(sequences * positions));
    for (const auto& stage : stages) {
      StageShape shape(config, stage->spec);
      shape.sequences = sequences;
      shape.context = positions;
      shape.rows = sequences * positions;
      stage->window = nullptr;  // its memory first
      stage->window =
          std::make_unique<InferenceWindow>(shape, stage->spec, stage->tensors, backend);
      boundary.resize(shape.activations_format().size_bytes());
    }
  }

  /// All layers of all stages, over `tokens`.
  void forward() {
    for (const auto& stage : stages) {
      Passes& passes = stage->window->passes;
      passes.forward(stage->window->slots.scratch(), stage->state.newest_weights(), tokens,
                     boundary.data());
      if (stage->spec.has_head) break;
      passes.write_output(boundary.data());
      backend.finish();
    }
  }

  Config config;
  kernels::Backend& backend;
  std::vector<std::unique_ptr<InferenceStage>> stages;
  std::int64_t sequences = 0, positions = 0;
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
  m.set_shape(1, rounded_up(count, model.context));
  std::fill(std::copy(tokens.begin(), tokens.end(), m.tokens.begin()), m.tokens.end(), 0);
  m.forward();

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

double Inference::loss(std::span<const std::int32_t> tokens,
                       std::span<const std::int32_t> targets) {
  Impl& m = *impl_;
  m.set_shape(m.config.train.microbatch_size, m.config.model.context);
  SWARMPI_CHECK(tokens.size() == m.tokens.size() && targets.size() == m.tokens.size(),
                "a microbatch of tokens and targets");
  std::copy(tokens.begin(), tokens.end(), m.tokens.begin());
  m.forward();
  const InferenceStage& last = *m.stages.back();
  double nats = 0;
  last.window->passes.loss(nats, last.state.newest_weights(), targets);
  m.backend.finish();
  return nats;
}

}  // namespace swarmpi
