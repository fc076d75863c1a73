#pragma once
// What the forward pass leaves for the backward pass, and the slots that keep it in between.

#include <memory>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "kernels/backend.hpp"
#include "model/layout.hpp"
#include "model/stage_shape.hpp"

namespace swarmpi {

/// One layer's part, in the order in which the forward pass makes it.
struct LayerActivations {
  kernels::Matrix x;                                   // (R, C) the layer's input
  float *norm1_mean = nullptr, *norm1_rstd = nullptr;  // (R)
  kernels::FactorMatrix normed1;                       // (R, C)
  kernels::FactorMatrix qkv;                           // (R, 3C)
  float* log_sum = nullptr;                            // (B, H, T) of attention's exponentials
  kernels::FactorMatrix attended;                      // (R, C)
  kernels::Matrix middle;                              // (R, C) x + attention's projection
  float *norm2_mean = nullptr, *norm2_rstd = nullptr;  // (R)
  kernels::FactorMatrix normed2;                       // (R, C)
  kernels::Matrix pre;                                 // (R, F) before GELU
  kernels::FactorMatrix activated;                     // (R, F)
};

/// The part of learned boundaries.
struct BoundaryActivations {
  kernels::FactorMatrix received;                    // (R, W) what came, before it is widened
  kernels::Matrix leaving;                           // (R, C) maxout: what the last layer leaves
  kernels::FactorMatrix leaving_factor;              // (R, C) bottleneck: the same, as a factor
  kernels::Matrix narrow;                            // (R, W) bottleneck: before the norm
  float *norm_mean = nullptr, *norm_rstd = nullptr;  // (R)
};

struct Activations {
  std::vector<LayerActivations> layers;
  BoundaryActivations boundary;
};

Activations lay_out_activations(Layout& layout, const StageShape& shape);

/// Slots for microbatches between their forward and backward pass, and one more that keeps nothing.
class ActivationSlots {
 public:
  ActivationSlots(const StageShape& shape, kernels::Backend& backend, std::int64_t slots);

  /// Where the forward pass of a training microbatch shall write: a slot that keeps it if one is
  /// free, else scratch.
  Activations& claim(const MicrobatchId& microbatch);
  /// What was kept of the microbatch; null where nothing was.
  Activations* find(const MicrobatchId& microbatch);
  Activations& scratch() { return scratch_.activations; }

  /// As many slots from now on. Those that hold nothing go first.
  void resize(const StageShape& shape, kernels::Backend& backend, std::int64_t slots);
  void release(const MicrobatchId& microbatch);
  void release_through(Step step);
  void release_all();
  std::int64_t memory_bytes() const;

 private:
  struct Slot {
    std::optional<MicrobatchId> holds;
    std::unique_ptr<kernels::Memory> memory;
    Activations activations;
  };
  static Slot make_slot(const StageShape& shape, kernels::Backend& backend);

  std::vector<Slot> kept_;
  Slot scratch_;
};

}  // namespace swarmpi
