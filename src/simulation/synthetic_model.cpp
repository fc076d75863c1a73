#include "simulation/synthetic_model.hpp"

#include <algorithm>
#include <bit>

#include "protocol/step/commit_record.hpp"

namespace swarmpi {
namespace {

enum class Quantity : std::uint64_t { loss, exponent, flag, term, initial, activations, gradient };

std::uint64_t key(std::uint64_t seed, Quantity quantity, const MicrobatchId& id, std::int64_t of) {
  const std::uint64_t what = static_cast<std::uint64_t>(quantity) << 1 |
                             static_cast<std::uint64_t>(id.purpose == Purpose::validate);
  const std::uint64_t microbatch =
      static_cast<std::uint64_t>(id.step.value) << 32 | static_cast<std::uint64_t>(id.index);
  return mix_bits(mix_bits(mix_bits(seed + what) ^ microbatch) ^ static_cast<std::uint64_t>(of));
}

constexpr std::ptrdiff_t kMoments = 2;

std::size_t size_from(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Step 0 runs the microbatches of step 1.
MicrobatchId content(MicrobatchId id) {
  if (id.purpose == Purpose::train) id.step = Step(std::max<std::int64_t>(id.step.value, 1));
  return id;
}

}  // namespace

double SyntheticModel::loss_nats(const MicrobatchId& microbatch) const {
  const std::uint64_t bits = key(seed, Quantity::loss, content(microbatch), 0);
  return 1 + 8 * (static_cast<double>(bits >> 11) * 0x1p-53);
}

kernels::Contribution SyntheticModel::contribution(const MicrobatchId& microbatch,
                                                   std::int32_t tensor,
                                                   std::int16_t exponent) const {
  const MicrobatchId id = content(microbatch);
  kernels::Contribution contribution;
  const std::uint64_t bits = key(seed, Quantity::exponent, id, tensor);
  contribution.exponent = static_cast<std::int16_t>(-20 + static_cast<int>(bits % 8));
  // Step 0 measures what step 1 will show, so the first flags come with step 2.
  if (id.step.value > 1 && flag_chance > 0) {
    const std::uint64_t flag = key(seed, Quantity::flag, id, tensor);
    if (static_cast<double>(flag >> 11) * 0x1p-53 < flag_chance) {
      contribution.nonfinite = (flag & 1) != 0;
      contribution.exponent = contribution.nonfinite ? kernels::kNoExponent : std::int16_t{9};
    }
  }
  contribution.overflow =
      !contribution.nonfinite && (exponent == kernels::kNoExponent ||
                                  contribution.exponent > exponent + kernels::kHeadroomBits);
  return contribution;
}

std::uint64_t SyntheticModel::term(const MicrobatchId& microbatch, std::int32_t tensor,
                                   std::int64_t block, std::int16_t exponent) const {
  const std::int64_t of = (std::int64_t{tensor} << 40) + (block << 16) + exponent;
  return key(seed, Quantity::term, microbatch, of);
}

std::uint64_t SyntheticModel::sum(Step step, std::int32_t tensor, std::int64_t block,
                                  std::int16_t exponent) const {
  std::uint64_t sum = 0;
  for (std::int32_t m = 0; m < microbatches; ++m) {
    sum += term({step, Purpose::train, m}, tensor, block, exponent);
  }
  return sum;
}

std::uint64_t SyntheticModel::rounded(std::uint64_t sum, std::int64_t tokens) {
  return mix_bits(sum ^ static_cast<std::uint64_t>(tokens));
}

double SyntheticModel::square(std::uint64_t rounded) {
  return static_cast<double>(rounded >> 11) * 0x1p-53;
}

SyntheticModel::BlockState SyntheticModel::initial_state(std::int32_t tensor, std::int64_t block,
                                                         std::int64_t versions) const {
  const std::int64_t of = (std::int64_t{tensor} << 40) + block;
  BlockState state(size_from(versions), key(seed, Quantity::initial, {}, of));
  state.resize(size_from(versions + kMoments), 0);
  return state;
}

void SyntheticModel::update_moments(BlockState& state, std::uint64_t reduced) {
  std::uint64_t& first = state[state.size() - 2];
  first = mix_bits(first ^ reduced);
  state.back() = mix_bits(state.back() + ~reduced);
}

void SyntheticModel::update_weights(BlockState& state, const CommitRecord& record, float ratio) {
  const auto both = [](float a, float b) {
    return std::uint64_t{std::bit_cast<std::uint32_t>(a)} << 32 | std::bit_cast<std::uint32_t>(b);
  };
  pass_on_weights(state);
  std::uint64_t& weights = state.front();
  weights = mix_bits(weights ^ both(record.lr, record.clip));
  weights = mix_bits(weights ^ both(record.correction1, record.correction2));
  weights = mix_bits(weights ^ state[state.size() - 2]);
  weights = mix_bits(weights + state.back() + std::bit_cast<std::uint32_t>(ratio));
}

void SyntheticModel::pass_on_weights(BlockState& state) {
  const auto weights_end = state.end() - kMoments;
  std::copy_backward(state.begin(), weights_end - 1, weights_end);
}

std::uint64_t SyntheticModel::ratio_part(const BlockState& state, std::int64_t block) {
  return mix_bits(mix_bits(state.front() + static_cast<std::uint64_t>(block)) ^ state.back());
}

float SyntheticModel::ratio(std::uint64_t sum_of_parts) {
  return static_cast<float>(mix_bits(sum_of_parts) >> 40);
}

std::uint64_t SyntheticModel::hash(const BlockState& state, std::int32_t tensor,
                                   std::int64_t block) {
  const std::uint64_t place =
      (static_cast<std::uint64_t>(tensor) << 40) + (static_cast<std::uint64_t>(block) << 8);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < state.size(); ++i) sum += mix_bits(state[i] ^ mix_bits(place + i));
  return sum;
}

std::uint64_t SyntheticModel::weight_hash(const BlockState& state, std::int32_t tensor,
                                          std::int64_t block) {
  return hash({state.front()}, tensor, block);
}

std::uint64_t SyntheticModel::activations(const WorkId& work) const {
  return key(seed, Quantity::activations, work.microbatch, work.stage.value);
}

std::uint64_t SyntheticModel::output_gradient(const WorkId& work) const {
  return key(seed, Quantity::gradient, work.microbatch, work.stage.value);
}

}  // namespace swarmpi
