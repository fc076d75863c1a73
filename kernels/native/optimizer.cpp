#include "kernels/native/optimizer.hpp"

#include <algorithm>
#include <numeric>

#include "core/prefetch.hpp"
#include "kernels/block_sum.hpp"
#include "kernels/fixed_point_element.hpp"
#include "kernels/native/parallel.hpp"
#include "kernels/native/vector_hash.hpp"
#include "kernels/optimizer_element.hpp"

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

std::uint64_t state_hash_of(const UpdateBuffers& b) {
  return vector_hash_of_state(b.new_weights, b.moment1, b.moment2, b.count, b.first_index);
}

/// So many elements are hashed, updated and hashed again while they are in the first cache: 4 lines
/// of weights and moments each.
constexpr std::int64_t kStretch = 64;

/// Asks memory for what is updated some stretches later: it comes while this one is computed.
void fetch_ahead(const UpdateBuffers& b) {
  constexpr std::int64_t kAhead = 512;
  const auto fetch = [](const auto* elements) {
    constexpr std::int64_t kSize = sizeof *elements;
    fetch_lines(elements, kAhead * kSize, (kAhead + kStretch) * kSize);
  };
  fetch(b.old_weights);
  fetch(b.moment1);
  fetch(b.moment2);
  if (b.gradient.sums != nullptr) fetch(b.gradient.sums);
  if (b.gradient.rounded != nullptr) fetch(b.gradient.rounded);
}

template <class GradientAt>
void adamw(const UpdateBuffers& b, const UpdateParameters p, const GradientAt gradient_at) {
  float* __restrict const weights = b.new_weights;
  float* __restrict const moment1 = b.moment1;
  float* __restrict const moment2 = b.moment2;
  const auto update = [=](std::int64_t i) {
    const Moments next = next_moments({moment1[i], moment2[i]}, gradient_at(i), p);
    weights[i] = stepped_weight(weights[i], p.lr, update_direction(next, weights[i], p));
    moment1[i] = next.first;
    moment2[i] = next.second;
  };
  if (b.count == kStretch) {  // a loop of known length is nothing but vectors
    for (std::int64_t i = 0; i < kStretch; ++i) update(i);
  } else {
    for (std::int64_t i = 0; i < b.count; ++i) update(i);
  }
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

/// LAMB's second pass over a block, when the length of the step is known.
void step_weights(const UpdateBuffers& b, const UpdateParameters p, float step) {
  float* __restrict const weights = b.new_weights;
  const float* __restrict const moment1 = b.moment1;
  const float* __restrict const moment2 = b.moment2;
  const std::int64_t count = b.count;
  for (std::int64_t i = 0; i < count; ++i) {
    const float direction = update_direction({moment1[i], moment2[i]}, weights[i], p);
    weights[i] = stepped_weight(weights[i], step, direction);
  }
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
  UpdateHashes hashes;
  for (std::int64_t at = first; at < end; at += kStretch) {
    const UpdateBuffers part = part_of(buffers, at, std::min(at + kStretch, end));
    fetch_ahead(part);
    keep_old_weights(part);
    if (buffers.hash_before != nullptr) hashes.before += state_hash_of(part);
    with_gradient(part.gradient,
                  [&](const auto gradient_at) { adamw(part, parameters, gradient_at); });
    hashes.after += state_hash_of(part);
  }
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
    step_weights(part, parameters, step);
    return state_hash_of(part);
  });
}

std::uint64_t hash_weights(const float* weights, std::int64_t count, std::int64_t first_index,
                           Scratch& scratch) {
  auto* const hashes = scratch.take_array<std::uint64_t>(blocks_of(count, kSumBlock));
  return sum_of_hashes(count, hashes, [=](std::int64_t first, std::int64_t end) {
    return vector_hash_of_weights(weights + first, end - first, first_index + first);
  });
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes, Scratch& scratch) {
  constexpr std::int64_t kWord = sizeof(std::uint32_t);
  const std::int64_t whole_words = std::ssize(bytes) / kWord;
  auto* const hashes = scratch.take_array<std::uint64_t>(blocks_of(whole_words, kSumBlock));
  const std::span<const std::byte> rest =
      bytes.subspan(static_cast<std::size_t>(whole_words * kWord));
  return hash_of_bytes(rest.data(), rest.size(), whole_words) +
         sum_of_hashes(whole_words, hashes, [=](std::int64_t first, std::int64_t end) {
           return vector_hash_of_words(bytes.data() + first * kWord, end - first, first);
         });
}

}  // namespace swarmpi::kernels::native
