#include "model/tensors.hpp"

#include "core/check.hpp"

namespace swarmpi {
namespace {

/// The list under construction: gives ids and places in the order of the calls.
class TensorList {
 public:
  TensorInfo& add(TensorRole role, std::string name, std::int64_t rows, std::int64_t columns) {
    TensorInfo info;
    info.id = static_cast<std::int32_t>(tensors_.size());
    info.role = role;
    info.name = std::move(name);
    info.rows = rows;
    info.columns = columns;
    info.first_index = next_index_;
    next_index_ += info.count();
    return tensors_.emplace_back(std::move(info));
  }

  std::vector<TensorInfo> take() { return std::move(tensors_); }

 private:
  std::vector<TensorInfo> tensors_;
  std::int64_t next_index_ = 0;
};

void add_layer_set(TensorList& list, const ModelConfig& model, std::int64_t set) {
  const std::int64_t width = model.width;
  const std::int64_t hidden = model.hidden();
  const std::string prefix = "layer." + std::to_string(set) + ".";
  const auto add = [&](TensorRole role, const char* name, std::int64_t rows, std::int64_t columns) {
    list.add(role, prefix + name, rows, columns).layer_set = set;
  };
  add(TensorRole::norm1_weight, "norm1.weight", 1, width);
  add(TensorRole::norm1_bias, "norm1.bias", 1, width);
  add(TensorRole::qkv_weight, "qkv.weight", 3 * width, width);
  add(TensorRole::qkv_bias, "qkv.bias", 1, 3 * width);
  add(TensorRole::projection_weight, "projection.weight", width, width);
  add(TensorRole::projection_bias, "projection.bias", 1, width);
  add(TensorRole::norm2_weight, "norm2.weight", 1, width);
  add(TensorRole::norm2_bias, "norm2.bias", 1, width);
  add(TensorRole::up_weight, "up.weight", hidden, width);
  add(TensorRole::up_bias, "up.bias", 1, hidden);
  add(TensorRole::down_weight, "down.weight", width, hidden);
  add(TensorRole::down_bias, "down.bias", 1, width);
}

void add_model(TensorList& list, const ModelConfig& model) {
  SWARMPI_CHECK(model.layers % model.layer_sets() == 0, "layers must divide into shared_groups");
  list.add(TensorRole::token_table, "embedding.tokens", model.vocab, model.width);
  list.add(TensorRole::position_table, "embedding.positions", model.context, model.width);
  for (std::int64_t set = 0; set < model.layer_sets(); ++set) add_layer_set(list, model, set);
  list.add(TensorRole::final_norm_weight, "final_norm.weight", 1, model.width);
  list.add(TensorRole::final_norm_bias, "final_norm.bias", 1, model.width);
  list.add(TensorRole::head_weight, "head.weight", model.vocab, model.width);
}

/// What crosses cut `cut`, between stages `cut` and `cut` + 1, and is wide again behind it.
void add_boundary(TensorList& list, const Config& config, std::int64_t cut) {
  const std::int64_t width = config.model.width;
  const std::int64_t narrow = config.swarm.boundary_width(width);
  const auto add = [&](TensorRole role, const char* name, std::int64_t rows, std::int64_t columns) {
    list.add(role, "boundary." + std::to_string(cut) + "." + name, rows, columns).cut = cut;
  };
  if (config.swarm.boundary == Boundary::bottleneck) {
    add(TensorRole::narrowing_weight, "narrowing.weight", narrow, width);
    add(TensorRole::narrowing_bias, "narrowing.bias", 1, narrow);
    add(TensorRole::narrowing_norm_weight, "norm.weight", 1, narrow);
    add(TensorRole::narrowing_norm_bias, "norm.bias", 1, narrow);
  }
  add(TensorRole::widening_weight, "widening.weight", width, narrow);
  add(TensorRole::widening_bias, "widening.bias", 1, width);
}

std::int64_t element_count(const std::vector<TensorInfo>& tensors) {
  return tensors.back().first_index + tensors.back().count();
}

}  // namespace

std::vector<TensorInfo> model_tensors(const ModelConfig& model) {
  TensorList list;
  add_model(list, model);
  return list.take();
}

std::vector<TensorInfo> model_tensors(const Config& config) {
  TensorList list;
  add_model(list, config.model);
  if (config.swarm.boundary != Boundary::plain) {
    for (std::int64_t cut = 0; cut + 1 < config.swarm.stages; ++cut) {
      add_boundary(list, config, cut);
    }
  }
  return list.take();
}

std::int64_t parameter_count(const ModelConfig& model) {
  return element_count(model_tensors(model));
}
std::int64_t parameter_count(const Config& config) { return element_count(model_tensors(config)); }

}  // namespace swarmpi
