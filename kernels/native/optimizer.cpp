#include "kernels/native/optimizer.hpp"

#include <algorithm>

#include "kernels/block_sum.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/optimizer_element.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::native {

namespace {

/// The part of the buffers from `first` to `end`.
UpdateBuffers part_of(const UpdateBuffers& b, std::int64_t first, std::int64_t end) {
  return {b.new_weights + first, b.old_weights + first, b.moment1 + first,    b.moment2 + first,
          b.gradient + first,    end - first,           b.first_index + first};
}

void update_moments(const UpdateBuffers& b, const UpdateParameters p) {
  float* __restrict const moment1 = b.moment1;
  float* __restrict const moment2 = b.moment2;
  const float* __restrict const gradient = b.gradient;
  const std::int64_t count = b.count;
  for (std::int64_t i = 0; i < count; ++i) {
    const Moments next = next_moments({moment1[i], moment2[i]}, gradient[i], p);
    moment1[i] = next.first;
    moment2[i] = next.second;
  }
}

/// In place, on a copy of the old weights where they are to be kept.
void step_weights(const UpdateBuffers& b, const UpdateParameters p, float step) {
  if (b.new_weights != b.old_weights) std::copy_n(b.old_weights, b.count, b.new_weights);
  float* __restrict const weights = b.new_weights;
  const float* __restrict const moment1 = b.moment1;
  const float* __restrict const moment2 = b.moment2;
  const std::int64_t count = b.count;
  for (std::int64_t i = 0; i < count; ++i) {
    const float direction = update_direction({moment1[i], moment2[i]}, weights[i], p);
    weights[i] = stepped_weight(weights[i], step, direction);
  }
}

std::uint64_t hash_of(const UpdateBuffers& b) {
  const float* __restrict const weights = b.new_weights;
  const float* __restrict const moment1 = b.moment1;
  const float* __restrict const moment2 = b.moment2;
  const std::int64_t count = b.count;
  const std::int64_t first_index = b.first_index;
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = first_index + i;
    hash += mix_element(weights[i], StateKind::weight, index);
    hash += mix_element(moment1[i], StateKind::moment1, index);
    hash += mix_element(moment2[i], StateKind::moment2, index);
  }
  return hash;
}

/// Calls update(block, part) for the blocks of a tensor; returns the sum of what it returns.
template <class Update>
std::uint64_t sum_over_blocks(const UpdateBuffers& buffers, std::uint64_t* hashes,
                              const Update& update) {
  for_each_block(buffers.count, kSumBlock,
                 [&](std::int64_t block, std::int64_t first, std::int64_t end) {
                   hashes[block] = update(block, part_of(buffers, first, end));
                 });
  std::uint64_t sum = 0;
  for (std::int64_t b = 0; b < blocks_of(buffers.count, kSumBlock); ++b) sum += hashes[b];
  return sum;
}

double sum_in_order(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

}  // namespace

std::uint64_t update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                           Scratch& scratch) {
  const std::int64_t blocks = blocks_of(buffers.count, kSumBlock);
  auto* const hashes = scratch.take_array<std::uint64_t>(blocks);
  return sum_over_blocks(buffers, hashes, [&](std::int64_t, const UpdateBuffers& part) {
    update_moments(part, parameters);
    step_weights(part, parameters, parameters.lr);
    return hash_of(part);
  });
}

std::uint64_t update_lamb(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                          Scratch& scratch) {
  const std::int64_t blocks = blocks_of(buffers.count, kSumBlock);
  auto* const weight_squares = scratch.take_array<double>(3 * blocks);
  double* const direction_squares = weight_squares + blocks;
  auto* const hashes = reinterpret_cast<std::uint64_t*>(direction_squares + blocks);
  for_each_block(
      buffers.count, kSumBlock, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
        const UpdateBuffers part = part_of(buffers, first, end);
        update_moments(part, parameters);
        weight_squares[block] = sum_lanes<double>(
            part.count, [&](std::int64_t i) { return exact_square(part.old_weights[i]); });
        direction_squares[block] = sum_lanes<double>(part.count, [&](std::int64_t i) {
          return exact_square(update_direction({part.moment1[i], part.moment2[i]},
                                               part.old_weights[i], parameters));
        });
      });
  const float step = parameters.lr * trust_ratio(sum_in_order(weight_squares, blocks),
                                                 sum_in_order(direction_squares, blocks));
  return sum_over_blocks(buffers, hashes, [&](std::int64_t, const UpdateBuffers& part) {
    step_weights(part, parameters, step);
    return hash_of(part);
  });
}

}  // namespace swarmpi::kernels::native
