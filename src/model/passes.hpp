#pragma once
// The forward and backward pass of one stage over one microbatch: one call a layer operation, in
// the order of the formulas. Buffers, and the backend's scratch, are taken once, by the
// constructor.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/backend.hpp"
#include "model/activations.hpp"
#include "model/gradients.hpp"
#include "model/stage_state.hpp"
#include "model/token_rows.hpp"

namespace swarmpi {

/// Buffers that live within one pass.
struct WorkBuffers {
  kernels::Matrix out;  // (R, C) what the last layer leaves, where that is not kept
  float *final_mean = nullptr, *final_rstd = nullptr;  // (R), last stage only
  kernels::FactorMatrix final_normed;                  // (R, C), last stage only
  kernels::Matrix
      dresidual;  // (R, C) gradient of the residual stream, from the last layer down to the first
  kernels::FactorMatrix dresidual_factor;  // (R, C) the same as a factor
  kernels::Matrix dbranch;                 // (R, C) gradient on a branch beside it
  kernels::FactorMatrix dattended;         // (R, C)
  kernels::FactorMatrix dqkv;              // (R, 3C)
  kernels::FactorMatrix dpre;              // (R, F)
  // Of learned boundaries: what crosses cuts, before it is coded or once it is decoded.
  kernels::Matrix crossing;              // (R, W)
  kernels::Matrix dcrossing;             // (R, W)
  kernels::Matrix dnarrow;               // (R, W) behind the norm's way back
  kernels::FactorMatrix dnarrow_factor;  // (R, W) the same as a factor
  GradientBuffers gradients;
};
WorkBuffers lay_out_work(Layout& layout, const StageShape& shape, const StageSpec& spec);

class Passes {
 public:
  Passes(const StageShape& shape, const StageSpec& spec, const StageTensors& tensors,
         kernels::Backend& backend);

  // x, y, dy and dx are what crosses cuts, in the shape's formats. What is given to the host (y,
  // dx, losses, contributions) is there after the backend's finish().

  /// All layers, from the tokens (first stage) or from x.
  void forward(Activations& activations, const WeightVersion& weights,
               std::span<const std::int32_t> tokens, const std::byte* x);
  /// Last stage: what the last layer left, (R, C); until the next forward().
  kernels::ConstMatrix output() const { return work_.out; }
  /// All other stages: what the next one gets, after forward().
  void write_output(std::byte* y);

  /// Last stage, after forward(): the loss in nats.
  void loss(double& nats, const WeightVersion& weights, std::span<const std::int32_t> targets);
  /// Last stage, after forward(): logits (R, V).
  void logits(const WeightVersion& weights, kernels::Matrix logits);

  /// Last stage, after forward(): the loss, and the head's part of the backward pass.
  void loss_backward(double& nats, const WeightVersion& weights,
                     std::span<const std::int32_t> targets, MicrobatchGradients& gradients);
  /// All other stages: the gradient of the stage's output, where the backward pass begins.
  void read_output_gradient(const std::byte* dy);
  /// All layers, from the last to the first, and the embedding. Where the gradients are not wanted,
  /// only what the input's gradient takes.
  void backward(const Activations& activations, const WeightVersion& weights,
                std::span<const std::int32_t> tokens, MicrobatchGradients& gradients);
  /// The gradient of the stage's input for the stage before, after backward().
  void write_input_gradient(std::byte* dx);

  const GradientBuffers& gradient_buffers() const { return work_.gradients; }
  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(memory_->size_bytes()); }

 private:
  void final_norm(const WeightVersion& weights);
  // Learned boundaries: from what came to the first layer's input, and from what the last layer
  // left to what crosses; and back.
  void widen(Activations& activations, const WeightVersion& weights, const std::byte* x);
  void narrow(BoundaryActivations& a, const WeightVersion& weights);
  void widen_backward(const BoundaryActivations& a, const WeightVersion& weights,
                      MicrobatchGradients& gradients);
  void narrow_backward(const BoundaryActivations& a, const WeightVersion& weights,
                       MicrobatchGradients& gradients);
  void forward_layer(LayerActivations& a, const LayerWeights& w, kernels::Matrix out);
  void backward_layer(std::int64_t layer, const LayerActivations& a, const LayerWeights& w,
                      MicrobatchGradients& gradients);
  const kernels::Weight& matrix(const WeightVersion& weights, TensorRole role) const;
  const float* vector(const WeightVersion& weights, TensorRole role) const;
  /// Where a norm's way back leaves dresidual as a factor; empty where that is dresidual itself.
  kernels::FactorMatrix residual_copy() const;
  void copy_residual();

  StageShape shape_;
  std::int64_t first_layer_;
  bool has_embedding_;
  const StageTensors& tensors_;
  kernels::Backend& backend_;
  WorkBuffers work_;
  std::optional<TokenRows> token_rows_;      // first stage only
  std::unique_ptr<kernels::Memory> memory_;  // of work_
};

}  // namespace swarmpi
