#pragma once
// The way of one microbatch's gradients: computed tensor by tensor into scratch, a weight perhaps
// strip by strip, and from there, while still in cache, into the integer sums of the step. Layers
// that share weights are first added up in fp32, in the order of the backward pass: one gradient a
// tensor and microbatch.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/records.hpp"
#include "kernels/backend.hpp"
#include "model/layout.hpp"
#include "model/stage_shape.hpp"
#include "model/stage_tensors.hpp"
#include "model/step_sums.hpp"

namespace swarmpi {

/// A buffer for each kind of tensor. Matrices that are added to the sums at once use the same
/// memory in turn; those of linear layers have no more rows there than are made at a time, that of
/// the token table no more than a microbatch has tokens.
using GradientBuffers = std::array<kernels::Matrix, kTensorRoles>;
GradientBuffers lay_out_gradients(Layout& layout, const StageShape& shape,
                                  const std::vector<TensorInfo>& tensors);

class MicrobatchGradients {
 public:
  /// `sums`: of the step. `exponents`: of all tensors of the model.
  MicrobatchGradients(const GradientBuffers& buffers, const StageTensors& tensors,
                      kernels::Backend& backend, StepSums& sums, const Exponents& exponents,
                      int bits);
  /// Gradients that are dropped: they are added to nothing.
  MicrobatchGradients(const GradientBuffers& buffers, const StageTensors& tensors,
                      kernels::Backend& backend);

  /// Whether they are added to sums. Where not, those that cost work of their own need not be made.
  bool wanted() const { return sums_ != nullptr; }

  kernels::Matrix matrix(TensorRole role) const { return buffers_[static_cast<std::size_t>(role)]; }
  float* vector(TensorRole role) const { return matrix(role).data; }

  /// The gradient of this tensor stands in its buffer, whole: adds it to the sums.
  void add(TensorRole role, std::int64_t layer_set = -1);
  /// Room for the gradients of these rows of the token table, in this order.
  kernels::Matrix token_rows(std::span<const std::int32_t> rows) const;
  /// They stand there, and all other rows have none: adds them to the sums.
  void add_token_rows(std::span<const std::int32_t> rows);
  /// Makes the gradients of a linear layer whose weights are not shared, dy^T x and the sums of dy,
  /// and adds them to the sums.
  void add_linear(TensorRole weight, TensorRole bias, std::int64_t layer_set,
                  kernels::ConstFactor dy, kernels::ConstFactor x);

  /// What they did to the sums, in tensor order; empty where they were not wanted. REQUIRES: the
  /// backend has finished.
  std::vector<kernels::Contribution> take() { return std::move(contributions_); }

 private:
  std::int16_t exponent(std::size_t place) const {
    return (*exponents_)[static_cast<std::size_t>(tensors_.info(place).id)];
  }

  const GradientBuffers& buffers_;
  const StageTensors& tensors_;
  kernels::Backend& backend_;
  StepSums* sums_ = nullptr;              // null: not wanted
  const Exponents* exponents_ = nullptr;  // likewise
  int bits_ = 0;
  std::vector<kernels::Contribution> contributions_;  // by place; stay until the backend finishes
};

}  // namespace swarmpi
