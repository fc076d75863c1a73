#include "kernels/reference/optimizer.hpp"

#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/optimizer_element.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::reference {

namespace {

float gradient_at(const ReducedGradient& g, std::int64_t i) {
  return g.rounded != nullptr ? g.rounded[i] : rounded_mean(g.sums[i], g.quantum_per_token);
}

void update_moments(const UpdateBuffers& b, const UpdateParameters& p) {
  for (std::int64_t i = 0; i < b.count; ++i) {
    const float gradient = gradient_at(b.gradient, i);
    const Moments next = next_moments({b.moment1[i], b.moment2[i]}, gradient, p);
    b.moment1[i] = next.first;
    b.moment2[i] = next.second;
  }
}

float direction_at(const UpdateBuffers& b, const UpdateParameters& p, std::int64_t i) {
  return update_direction({b.moment1[i], b.moment2[i]}, b.old_weights[i], p);
}

/// Returns the hash of what the update wrote.
std::uint64_t step_weights(const UpdateBuffers& b, const UpdateParameters& p, float step) {
  return sum_by_place(b.first_index, b.count, [&](std::int64_t i, HashKeys keys) {
    b.new_weights[i] = stepped_weight(b.old_weights[i], step, direction_at(b, p, i));
    return hash_element(b.new_weights[i], b.moment1[i], b.moment2[i], keys);
  });
}

}  // namespace

std::uint64_t update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters) {
  if (buffers.hash_before != nullptr) {
    *buffers.hash_before = hash_of_state(buffers.old_weights, buffers.moment1, buffers.moment2,
                                         buffers.count, buffers.first_index);
  }
  update_moments(buffers, parameters);
  return step_weights(buffers, parameters, parameters.lr);
}

std::uint64_t update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters) {
  update_moments(buffers, parameters);
  const double weight_squares = sum_blocks(
      buffers.count, [&](std::int64_t i) { return exact_square(buffers.old_weights[i]); });
  const double direction_squares = sum_blocks(buffers.count, [&](std::int64_t i) {
    return exact_square(direction_at(buffers, parameters, i));
  });
  const float ratio = trust_ratio(weight_squares, direction_squares);
  if (buffers.trust_ratio != nullptr) *buffers.trust_ratio = ratio;
  const float step = parameters.lr * ratio;
  return step_weights(buffers, parameters, step);
}

}  // namespace swarmpi::kernels::reference
