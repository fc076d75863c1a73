#pragma once
// One element of AdamW and LAMB, in fp32 and in one fixed order of operations: all backends use
// these, so their updates have equal bits for equal input.

#include <cmath>

#include "kernels/backend.hpp"
#include "kernels/host_device.hpp"

namespace swarmpi::kernels {

struct Moments {
  float first = 0;
  float second = 0;
};

SWARMPI_HOST_DEVICE inline Moments next_moments(Moments old, float gradient,
                                                const UpdateParameters& p) {
  const float clipped = p.clip * gradient;
  return {p.beta1 * old.first + (1.0f - p.beta1) * clipped,
          p.beta2 * old.second + (1.0f - p.beta2) * (clipped * clipped)};
}

/// u of both methods: the corrected moments' quotient plus decay, at the weight before the update.
SWARMPI_HOST_DEVICE inline float update_direction(Moments moments, float weight,
                                                  const UpdateParameters& p) {
  const float mean = moments.first * (1.0f / p.correction1);
  const float square = moments.second * (1.0f / p.correction2);
  return mean / (std::sqrt(square) + p.epsilon) + p.weight_decay * weight;
}

/// AdamW steps by lr, LAMB by lr * trust_ratio.
SWARMPI_HOST_DEVICE inline float stepped_weight(float weight, float step, float direction) {
  return weight - step * direction;
}

/// The method's paper (You et al., 2020, algorithm 2) scales by phi(|w|) / |u| with a phi between
/// two bounds, which its proof of convergence needs. Here phi is the identity, and the quotient has
/// the bound: it does not depend on the size of a tensor. A direction has elements of about 1, so
/// only weights that large, or gradients that have vanished, come near.
inline constexpr float kLargestTrustRatio = 10;

/// |w| / |u| from the sums of squares, at most kLargestTrustRatio; 1 where either is zero.
SWARMPI_HOST_DEVICE inline float trust_ratio(double weight_squares, double direction_squares) {
  if (weight_squares == 0 || direction_squares == 0) return 1.0f;
  const auto ratio = static_cast<float>(std::sqrt(weight_squares) / std::sqrt(direction_squares));
  return kLargestTrustRatio < ratio ? kLargestTrustRatio : ratio;  // a NaN stays
}

}  // namespace swarmpi::kernels
