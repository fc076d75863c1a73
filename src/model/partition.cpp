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

}  // namespace

std::vector<StageSpec> partition_model(const ModelConfig& model, std::int64_t stages) {
  std::vector<TensorInfo> tensors = model_tensors(model);
  auto tensor = tensors.begin();
  const std::int64_t sets = model.layer_sets();
  const std::int64_t layers_per_set = model.layers / sets;
  SWARMPI_CHECK(stages >= 1 && stages <= sets, "every stage needs a layer (or a whole group)");
  std::vector<double> costs(static_cast<std::size_t>(sets),
                            static_cast<double>(layers_per_set) * layer_flops_per_token(model));
  costs.back() += head_flops_per_token(model);

  std::vector<StageSpec> specs;
  std::int64_t first_set = 0;
  for (const std::int64_t end_set : partition_contiguous(costs, stages)) {
    StageSpec spec;
    spec.stage = static_cast<std::int32_t>(specs.size());
    spec.first_layer = first_set * layers_per_set;
    spec.end_layer = end_set * layers_per_set;
    spec.has_embedding = first_set == 0;
    spec.has_head = end_set == sets;
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

}  // namespace swarmpi
