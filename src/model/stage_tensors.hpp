#pragma once
// Where each tensor of a stage lies in the arrays that hold one value an element: weights, moments,
// sums, gradients.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/tensors.hpp"

namespace swarmpi {

class StageTensors {
 public:
  explicit StageTensors(const StageSpec& spec);

  std::size_t size() const { return infos_.size(); }
  const TensorInfo& info(std::size_t place) const { return infos_[place]; }
  /// First element of the tensor in an array, on a cache line of its own.
  std::int64_t offset(std::size_t place) const { return offsets_[place]; }
  /// Elements of an array that holds all tensors.
  std::int64_t elements() const { return elements_; }
  /// The tensor with this role, for layers in this set of weights. REQUIRES: the stage has it.
  std::size_t place(TensorRole role, std::int64_t layer_set = -1) const;

 private:
  std::vector<TensorInfo> infos_;
  std::vector<std::int64_t> offsets_;
  std::int64_t elements_ = 0;
  std::int64_t first_set_ = 0;
  std::array<std::vector<std::size_t>, kTensorRoles> places_;  // by role, then by set of layers
};

/// Whether passes multiply by this tensor, so that the backend keeps it in a form of its own.
bool is_multiplied_by(TensorRole role);

}  // namespace swarmpi
