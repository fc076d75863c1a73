#pragma once
// A model without arithmetic: losses, exponents and contributions to the sums are hashes of the
// microbatch. A contribution is 64 pseudo-random bits for each block of the gradient, added mod
// 2^64, so that a sum that counts a microbatch twice or not at all is wrong, but for one case in
// 2^64.

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/reduction/blocks.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

/// Spreads every bit over all others (the finalizer of SplitMix64).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct SyntheticModel {
  std::uint64_t seed = 0;
  std::int64_t microbatches = 1;
  /// How often a microbatch's gradient is NaN or above the headroom in one of the tensors.
  double flag_chance = 0;
  /// Sizes of what crosses a boundary, in 64-bit words: codecs differ by direction.
  std::int64_t activation_words = 1;
  std::int64_t gradient_words = 1;

  double loss_nats(const MicrobatchId& microbatch) const;
  /// The facts that a microbatch's gradient reports of a tensor whose exponent is `exponent`.
  kernels::Contribution contribution(const MicrobatchId& microbatch, std::int32_t tensor,
                                     std::int16_t exponent) const;
  /// What it adds to a block of the tensor, if it is not flagged.
  std::uint64_t term(const MicrobatchId& microbatch, std::int32_t tensor, std::int64_t block,
                     std::int16_t exponent) const;
  /// The sum over all microbatches of the step, which every reduction must give.
  std::uint64_t sum(Step step, std::int32_t tensor, std::int64_t block,
                    std::int16_t exponent) const;
  /// The reduced gradient of a block, and its square.
  static std::uint64_t rounded(std::uint64_t sum, std::int64_t tokens);
  static double square(std::uint64_t rounded);

  /// The state of a block: the versions of its weights, newest first, and two moments.
  using BlockState = std::vector<std::uint64_t>;
  /// Before any step.
  BlockState initial_state(std::int32_t tensor, std::int64_t block, std::int64_t versions) const;
  /// The reduced gradient changes the moments; these, the commit record and a ratio that all blocks
  /// of the tensor have in common make the next version of the weights.
  static void update_moments(BlockState& state, std::uint64_t reduced);
  static void update_weights(BlockState& state, const CommitRecord& record, float ratio);
  /// Another version of the same weights.
  static void pass_on_weights(BlockState& state);
  /// A block's part of its tensor's ratio, after update_moments(): parts are added.
  static std::uint64_t ratio_part(const BlockState& state, std::int64_t block);
  static float ratio(std::uint64_t sum_of_parts);
  /// A block's part of its tensor's hash: parts are added.
  static std::uint64_t hash(const BlockState& state, std::int32_t tensor, std::int64_t block);
  /// The same of its newest weights alone.
  static std::uint64_t weight_hash(const BlockState& state, std::int32_t tensor,
                                   std::int64_t block);

  /// What crosses the boundaries of a stage: the activations into `work.stage`, and the gradient of
  /// its output.
  std::uint64_t activations(const WorkId& work) const;
  std::uint64_t output_gradient(const WorkId& work) const;
};

}  // namespace swarmpi
