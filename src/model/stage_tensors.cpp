#include "model/stage_tensors.hpp"

#include "core/check.hpp"
#include "model/layout.hpp"

namespace swarmpi {

StageTensors::StageTensors(const StageSpec& spec) : infos_(spec.tensors) {
  bool any_layer = false;
  for (std::size_t place = 0; place < infos_.size(); ++place) {
    const TensorInfo& info = infos_[place];
    offsets_.push_back(elements_);
    elements_ += Layout::round_up(info.count());
    places_[static_cast<std::size_t>(info.role)].push_back(place);
    if (info.layer_set >= 0 && !any_layer) first_set_ = info.layer_set;
    any_layer = any_layer || info.layer_set >= 0;
  }
}

std::size_t StageTensors::place(TensorRole role, std::int64_t layer_set) const {
  const std::vector<std::size_t>& places = places_[static_cast<std::size_t>(role)];
  const auto number = static_cast<std::size_t>(layer_set < 0 ? 0 : layer_set - first_set_);
  SWARMPI_CHECK(number < places.size() && infos_[places[number]].layer_set == layer_set,
                "the stage does not hold this tensor");
  return places[number];
}

bool is_multiplied_by(TensorRole role) {
  switch (role) {
    case TensorRole::qkv_weight:
    case TensorRole::projection_weight:
    case TensorRole::up_weight:
    case TensorRole::down_weight:
    case TensorRole::head_weight:
    case TensorRole::narrowing_weight:
    case TensorRole::widening_weight:
      return true;
    default:
      return false;
  }
}

}  // namespace swarmpi
