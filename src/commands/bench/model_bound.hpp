#pragma once
// How fast this machine could train a model: the work that a step cannot avoid, at rates that are
// measured here or assumed below.

#include <cstdint>

#include "config/config.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// Seconds of a step on one peer.
struct ModelBound {
  double products_s = 0;   ///< all linear layers, each alone, as fast as this backend does it
  double attention_s = 0;  ///< 60 % of its full FLOPs, at the mean rate of these products
  double gelu_s = 0;       ///< 1.1 ns a hidden element, both directions; a device: 20 bytes
  double pointwise_s = 0;  ///< norms, residuals, biases, softmax: each array once, at 25 GB/s or a
                           ///< device's copy
  double update_s = 0;     ///< AdamW: 28 bytes a parameter, likewise

  double total_s() const { return products_s + attention_s + gelu_s + pointwise_s + update_s; }
};

ModelBound measure_bound(const Config& config, kernels::Backend& backend);

/// Seconds a step by which exact sums are slower than sums in fp32. Measured, with factors and
/// weights of this model's hidden layers: products of gradients into integers, their norm, and
/// AdamW from them; less the same products into fp32 and AdamW from these, without the norm.
double measure_exactness_s(const Config& config, kernels::Backend& backend);

}  // namespace swarmpi
