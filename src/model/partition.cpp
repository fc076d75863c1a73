#include "core/check.hpp"
#include "model/cost.hpp"
#include "model/tensors.hpp"
#include "swarm/runs.hpp"

namespace swarmpi {
namespace {

bool in_stage(const TensorInfo& tensor, const StageSpec& spec, std::int64_t layers_per_set) {
  switch (tensor.role) {
    case TensorRole::token_table:
    case TensorRole::position_table:
      return spec.has_embedding;
    case TensorRole::final_norm_weight:
    case TensorRole::final_norm_bias:
    case TensorRole::head_weight:
      return spec.has_head;
    default: {
      const std::int64_t layer = tensor.layer_set * layers_per_set;
      return spec.first_layer <= layer && layer < spec.end_layer;
    }
  }
}

}  // namespace

std::vector<StageSpec> partition_model(const ModelConfig& model, std::int64_t stages) {
  const std::vector<TensorInfo> tensors = model_tensors(model);
  const std::int64_t sets = model.layer_sets();
  const std::int64_t layers_per_set = model.layers / sets;
  SWARMPI_CHECK(stages >= 1 && stages <= sets, "every stage needs a layer (or a whole group)");
  std::vector<double> costs(static_cast<std::size_t>(sets),
                            static_cast<double>(layers_per_set) * layer_flops_per_token(model));
  costs.back() += head_flops_per_token(model);

  std::vector<StageSpec> specs;
  std::int64_t first_set = 0;
  for (const std::int64_t end_set : cut_into_runs(costs, stages)) {
    StageSpec spec;
    spec.stage = static_cast<std::int32_t>(specs.size());
    spec.first_layer = first_set * layers_per_set;
    spec.end_layer = end_set * layers_per_set;
    spec.has_embedding = first_set == 0;
    spec.has_head = end_set == sets;
    for (; first_set < end_set; ++first_set) {
      spec.flops_per_token += costs[static_cast<std::size_t>(first_set)];
    }
    for (const TensorInfo& tensor : tensors) {
      if (in_stage(tensor, spec, layers_per_set)) spec.tensors.push_back(tensor);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace swarmpi
