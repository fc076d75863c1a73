#include <utility>

#include "core/check.hpp"
#include "core/contiguous_partition.hpp"
#include "model/cost.hpp"
#include "model/tensors.hpp"

namespace swarmpi {
namespace {

/// The first layer that works with the tensor; tensors are listed in the order of these layers.
std::int64_t first_use(const TensorInfo& tensor, const ModelConfig& model) {
  switch (tensor.role) {
    case TensorRole::token_table:
    case TensorRole::position_table:
      return 0;
    case TensorRole::final_norm_weight:
    case TensorRole::final_norm_bias:
    case TensorRole::head_weight:
      return model.layers - 1;
    default:
      return tensor.layer_set * (model.layers / model.layer_sets());
  }
}

std::vector<double> costs_of_sets(const ModelConfig& model) {
  const std::int64_t layers_per_set = model.layers / model.layer_sets();
  std::vector<double> costs(static_cast<std::size_t>(model.layer_sets()),
                            static_cast<double>(layers_per_set) * layer_flops_per_token(model));
  costs.back() += head_flops_per_token(model);
  return costs;
}

/// `ends`: of each stage, the set of layer weights behind its last one.
std::vector<StageSpec> stages_of(const ModelConfig& model, const std::vector<std::int64_t>& ends) {
  std::vector<TensorInfo> tensors = model_tensors(model);
  auto tensor = tensors.begin();
  const std::vector<double> costs = costs_of_sets(model);
  const std::int64_t layers_per_set = model.layers / model.layer_sets();
  std::vector<StageSpec> specs;
  std::int64_t first_set = 0;
  for (const std::int64_t end_set : ends) {
    SWARMPI_CHECK(first_set < end_set && end_set <= model.layer_sets(),
                  "each stage begins behind the one before, within the model");
    StageSpec spec;
    spec.stage = static_cast<std::int32_t>(specs.size());
    spec.first_layer = first_set * layers_per_set;
    spec.end_layer = end_set * layers_per_set;
    spec.has_embedding = first_set == 0;
    spec.has_head = end_set == model.layer_sets();
    for (; first_set < end_set; ++first_set) {
      spec.flops_per_token += costs[static_cast<std::size_t>(first_set)];
    }
    for (; tensor != tensors.end() && first_use(*tensor, model) < spec.end_layer; ++tensor) {
      spec.tensors.push_back(std::move(*tensor));
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

/// Adds those of learned boundaries to the stages that work with them, and what that costs.
void add_boundaries(std::vector<StageSpec>& specs, const Config& config) {
  for (const TensorInfo& tensor : model_tensors(config)) {
    if (tensor.cut < 0) continue;
    const bool receives =
        tensor.role == TensorRole::widening_weight || tensor.role == TensorRole::widening_bias;
    StageSpec& spec = specs.at(static_cast<std::size_t>(tensor.cut + (receives ? 1 : 0)));
    spec.tensors.push_back(tensor);
    if (tensor.is_matrix()) spec.flops_per_token += linear_flops_per_token(tensor.count());
  }
}

}  // namespace

std::vector<StageSpec> partition_model(const ModelConfig& model, std::int64_t stages) {
  SWARMPI_CHECK(stages >= 1 && stages <= model.layer_sets(),
                "every stage needs a layer (or a whole group)");
  return stages_of(model, partition_contiguous(costs_of_sets(model), stages));
}

std::vector<StageSpec> partition_model(const Config& config) {
  const ModelConfig& model = config.model;
  std::vector<StageSpec> specs;
  if (config.swarm.cuts.empty()) {
    specs = partition_model(model, config.swarm.stages);
  } else {
    std::vector<std::int64_t> ends;
    for (const std::int64_t cut : config.swarm.cuts) {
      ends.push_back(cut * model.layer_sets() / model.layers);
    }
    ends.push_back(model.layer_sets());
    specs = stages_of(model, ends);
  }
  add_boundaries(specs, config);
  return specs;
}

std::int64_t tensor_count(const std::vector<StageSpec>& specs) {
  std::int64_t count = 0;
  for (const StageSpec& spec : specs) count += static_cast<std::int64_t>(spec.tensors.size());
  return count;
}

std::vector<std::int64_t> cuts_of(const std::vector<StageSpec>& specs) {
  std::vector<std::int64_t> cuts;
  for (const StageSpec& spec : specs) {
    if (!spec.has_embedding) cuts.push_back(spec.first_layer);
  }
  return cuts;
}

}  // namespace swarmpi
