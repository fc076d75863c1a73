#pragma once
// The whole model without gradients: what comes next, for writing text, and the loss of one that is
// there.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "config/config.hpp"
#include "core/records.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

class Inference {
 public:
  /// REQUIRES: the backend is reserved for the deck's microbatches; where loss() is not called, for
  /// one sequence of its model.
  Inference(const Config& config, kernels::Backend& backend);
  ~Inference();

  /// All weights of the model, one version of each and no moments, in the backend's memory, to be
  /// filled; then loaded().
  std::vector<TensorState> weights();
  void loaded();

  /// Logits (V) of the token after `tokens`. REQUIRES: 1 <= tokens <= context, each < vocab. Costs
  /// a forward pass over that many positions, rounded up so that the backend meets few shapes.
  void next_logits(std::span<const std::int32_t> tokens, std::span<float> logits);
  /// The loss in nats of a microbatch (B*T), bit for bit as training validates it.
  double loss(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swarmpi
