#include "model/stage_tensors.hpp"

#include "core/check.hpp"
#include "model/layout.hpp"

namespace swarmpi {
namespace {

constexpr auto kFirstLayerRole = static_cast<std::size_t>(TensorRole::norm1_weight);
constexpr auto kLayerRoles = static_cast<std::size_t>(TensorRole::down_bias) - kFirstLayerRole + 1;
constexpr auto kFirstLastRole = static_cast<std::size_t>(TensorRole::final_norm_weight);
constexpr std::size_t kLastRoles = 3;

}  // namespace

StageTensors::StageTensors(const StageSpec& spec) : infos_(spec.tensors) {
  for (const TensorInfo& info : infos_) {
    offsets_.push_back(elements_);
    elements_ += Layout::round_up(info.count());
  }
  first_layer_place_ = spec.has_embedding ? kFirstLayerRole : 0;
  first_set_ = infos_.at(first_layer_place_).layer_set;
}

std::size_t StageTensors::place(TensorRole role, std::int64_t layer_set) const {
  const auto number = static_cast<std::size_t>(role);
  std::size_t place = number;
  if (number >= kFirstLastRole) {
    place = infos_.size() - kLastRoles + (number - kFirstLastRole);
  } else if (number >= kFirstLayerRole) {
    place = first_layer_place_ + (number - kFirstLayerRole) +
            static_cast<std::size_t>(layer_set - first_set_) * kLayerRoles;
  }
  SWARMPI_CHECK(
      place < infos_.size() && infos_[place].role == role && infos_[place].layer_set == layer_set,
      "the stage does not hold this tensor");
  return place;
}

bool is_multiplied_by(TensorRole role) {
  switch (role) {
    case TensorRole::qkv_weight:
    case TensorRole::projection_weight:
    case TensorRole::up_weight:
    case TensorRole::down_weight:
    case TensorRole::head_weight:
      return true;
    default:
      return false;
  }
}

}  // namespace swarmpi
