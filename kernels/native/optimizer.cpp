#include "kernels/native/optimizer.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/optimizer_element.hpp"
#include "kernels/state_hash.hpp"

namespace swarmpi::kernels::native {

namespace {

/// The part of the buffers from `first` to `end`.
UpdateBuffers part_of(const UpdateBuffers& b, std::int64_t first, std::int64_t end) {
  UpdateBuffers part{b.new_weights + first,
                     b.old_weights + first,
                     b.moment1 + first,
                     b.moment2 + first,
                     b.gradient,
                     end - first,
                     b.first_index + first};
  if (b.gradient.rounded != nullptr) part.gradient.rounded += first;
  if (b.gradient.sums != nullptr) part.gradient.sums += first;
  return part;
}

/// Calls body(gradient_at) with what gives the gradient's element i, in either form.
template <class Body>
auto with_gradient(const ReducedGradient& gradient, const Body& body) {
  if (gradient.rounded != nullptr) {
    const float* __restrict const rounded = gradient.rounded;
    return body([=](std::int64_t i) { return rounded[i]; });
  }
  const std::int64_t* __restrict const sums = gradient.sums;
  const double quantum_per_token = gradient.quantum_per_token;
  return body([=](std::int64_t i) { return rounded_mean(sums[i], quantum_per_token); });
}

/// An update works in place, on a copy of the old weights where those are to be kept.
void keep_old_weights(const UpdateBuffers& b) {
  if (b.new_weights != b.old_weights) std::copy_n(b.old_weights, b.count, b.new_weights);
}

/// All of AdamW in one pass over a block: memory is what bounds it. Returns the state's hash.
template <class GradientAt>
std::uint64_t adamw(const UpdateBuffers& b, const UpdateParameters p,
                    const GradientAt gradient_at) {
  float* __restrict const weights = b.new_weights;
  float* __restrict const moment1 = b.moment1;
  float* __restrict const moment2 = b.moment2;
  const std::int64_t count = b.count;
  const PlaceKeys keys(b.first_index);
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Moments next = next_moments({moment1[i], moment2[i]}, gradient_at(i), p);
    const float weight = stepped_weight(weights[i], p.lr, update_direction(next, weights[i], p));
    moment1[i] = next.first;
    moment2[i] = next.second;
    weights[i] = weight;
    hash += hash_element(weight, next.first, next.second, keys.at(static_cast<std::uint32_t>(i)));
  }
  return hash;
}

template <class GradientAt>
void update_moments(const UpdateBuffers& b, const UpdateParameters p,
                    const GradientAt gradient_at) {
  float* __restrict const moment1 = b.moment1;
  float* __restrict const moment2 = b.moment2;
  const std::int64_t count = b.count;
  for (std::int64_t i = 0; i < count; ++i) {
    const Moments next = next_moments({moment1[i], moment2[i]}, gradient_at(i), p);
    moment1[i] = next.first;
    moment2[i] = next.second;
  }
}

/// LAMB's second pass over a block, when the length of the step is known. Returns the state's hash.
std::uint64_t step_weights(const UpdateBuffers& b, const UpdateParameters p, float step) {
  float* __restrict const weights = b.new_weights;
  const float* __restrict const moment1 = b.moment1;
  const float* __restrict const moment2 = b.moment2;
  const std::int64_t count = b.count;
  const PlaceKeys keys(b.first_index);
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float direction = update_direction({moment1[i], moment2[i]}, weights[i], p);
    const float weight = stepped_weight(weights[i], step, direction);
    weights[i] = weight;
    hash += hash_element(weight, moment1[i], moment2[i], keys.at(static_cast<std::uint32_t>(i)));
  }
  return hash;
}

/// The sum of hash_of(first, end) over the blocks of so many elements.
template <class HashOf>
std::uint64_t sum_of_hashes(std::int64_t count, std::uint64_t* hashes, const HashOf& hash_of) {
  for_each_block(count, kSumBlock, [&](std::int64_t block, std::int64_t first, std::int64_t end) {
    hashes[block] = hash_of(first, end);
  });
  return std::accumulate(hashes, hashes + blocks_of(count, kSumBlock), std::uint64_t{0});
}

/// Calls update(part) for the blocks of a tensor; returns the sum of what it returns.
template <class Update>
std::uint64_t sum_over_blocks(const UpdateBuffers& buffers, std::uint64_t* hashes,
                              const Update& update) {
  return sum_of_hashes(buffers.count, hashes, [&](std::int64_t first, std::int64_t end) {
    return update(part_of(buffers, first, end));
  });
}

double sum_in_order(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

}  // namespace

UpdateHashes update_adamw_part(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                               std::int64_t first, std::int64_t end) {
  const UpdateBuffers part = part_of(buffers, first, end);
  UpdateHashes hashes;
  if (buffers.hash_before != nullptr) {
    // What the update reads next is in the cache then.
    hashes.before =
        hash_of_state(part.old_weights, part.moment1, part.moment2, part.count, part.first_index);
  }
  keep_old_weights(part);
  hashes.after = with_gradient(
      part.gradient, [&](const auto gradient_at) { return adamw(part, parameters, gradient_at); });
  return hashes;
}

std::uint64_t update_adamw(const UpdateBuffers& buffers, const UpdateParameters& parameters,
                           Scratch& scratch) {
  const std::int64_t blocks = blocks_of(buffers.count, kSumBlock);
  auto* const hashes = scratch.take_array<UpdateHashes>(blocks);
  for_each_block(buffers.count, kSumBlock,
                 [&](std::int64_t block, std::int64_t first, std::int64_t end) {
                   hashes[block] = update_adamw_part(buffers, parameters, first, end);
                 });
  UpdateHashes sum;
  for (std::int64_t block = 0; block < blocks; ++block) sum += hashes[block];
  if (buffers.hash_before != nullptr) *buffers.hash_before = sum.before;
  return sum.after;
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
        with_gradient(part.gradient, [&](const auto gradient_at) {
          update_moments(part, parameters, gradient_at);
        });
        weight_squares[block] = sum_lanes<double>(
            part.count, [&](std::int64_t i) { return exact_square(part.old_weights[i]); });
        direction_squares[block] = sum_lanes<double>(part.count, [&](std::int64_t i) {
          return exact_square(update_direction({part.moment1[i], part.moment2[i]},
                                               part.old_weights[i], parameters));
        });
      });
  const float ratio =
      trust_ratio(sum_in_order(weight_squares, blocks), sum_in_order(direction_squares, blocks));
  if (buffers.trust_ratio != nullptr) *buffers.trust_ratio = ratio;
  const float step = parameters.lr * ratio;
  return sum_over_blocks(buffers, hashes, [&](const UpdateBuffers& part) {
    keep_old_weights(part);
    return step_weights(part, parameters, step);
  });
}

std::uint64_t hash_weights(const float* weights, std::int64_t count, std::int64_t first_index,
                           Scratch& scratch) {
  auto* const hashes = scratch.take_array<std::uint64_t>(blocks_of(count, kSumBlock));
  return sum_of_hashes(count, hashes, [=](std::int64_t first, std::int64_t end) {
    return hash_of_weights(weights + first, end - first, first_index + first);
  });
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes, Scratch& scratch) {
  constexpr std::int64_t kWord = sizeof(std::uint32_t);
  const std::int64_t words = blocks_of(std::ssize(bytes), kWord);
  auto* const hashes = scratch.take_array<std::uint64_t>(blocks_of(words, kSumBlock));
  return sum_of_hashes(words, hashes, [=](std::int64_t first, std::int64_t end) {
    const std::int64_t size = std::min(end * kWord, std::ssize(bytes)) - first * kWord;
    return hash_of_bytes(bytes.data() + first * kWord, static_cast<std::size_t>(size), first);
  });
}

}  // namespace swarmpi::kernels::native
