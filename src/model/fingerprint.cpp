#include <numeric>
#include <vector>

#include "core/hash.hpp"
#include "core/random.hpp"
#include "kernels/fixed_point.hpp"
#include "model/stage_model.hpp"
#include "protocol/step/schedule.hpp"

namespace swarmpi {
namespace {

constexpr std::uint64_t kSeed = 0;  // not the deck's: decks that differ in it share a fingerprint

std::vector<std::int32_t> keyed_tokens(const Config& config, std::uint32_t key) {
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(config.train.microbatch_size * config.model.context));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random_bits(kSeed, Stream::fingerprint, key, i) %
                                          static_cast<std::uint64_t>(config.model.vocab));
  }
  return tokens;
}

/// Where layers share weights, the block is two that do: their gradients are added.
Config one_block(Config config) {
  const bool shares = config.model.layers > config.model.layer_sets();
  config.model.layers = shares ? 2 : 1;
  config.model.shared_groups = shares ? 1 : 0;
  config.train.updates = Updates::synchronous;
  config.train.seed = kSeed;
  return config;
}

}  // namespace

std::uint64_t fingerprint(const Config& config, kernels::Backend& backend) {
  const Config block = one_block(config);
  StageModel model(block, partition_model(block.model, 1).front(), backend, 0);
  model.initialize();
  const std::vector<std::int32_t> tokens = keyed_tokens(block, 0);
  const std::vector<std::int32_t> targets = keyed_tokens(block, 1);

  StreamHash hash;
  const auto add = [&hash](const auto& value) { hash.add(&value, sizeof value); };
  // As in a run: step 0 measures the exponents, step 1 adds, rounds and updates.
  const auto pass = [&](Step step, const Exponents& exponents) {
    const WorkId work{{step, Purpose::train, 0}, StageId(0)};
    StageModel::BackwardAnswer answer =
        model.backward(work, tokens, targets, {}, {}, {}, exponents);
    add(answer.loss_nats);
    return answer.contributions;
  };
  Exponents exponents(model.spec().tensors.size(), kernels::kNoExponent);
  const auto measured = pass(Step(0), exponents);
  for (std::size_t i = 0; i < measured.size(); ++i) exponents[i] = measured[i].exponent;
  CommitRecord record;
  record.skipped = true;
  model.apply(record);

  pass(Step(1), exponents);
  const auto count = static_cast<std::int64_t>(tokens.size());
  for (const double square : model.reduce(Step(1), exponents, count)) add(square);
  for (const std::int16_t exponent : exponents) add(exponent);
  record.step = Step(1);
  record.skipped = false;
  record.lr = 1e-3f;
  record.correction1 = bias_correction(block.train.beta1, 1);
  record.correction2 = bias_correction(block.train.beta2, 1);
  // The moments carry every bit of the gradients.
  const std::vector<std::uint64_t> hashes = model.apply(record);
  add(std::accumulate(hashes.begin(), hashes.end(), std::uint64_t{0}));
  return hash.value();
}

}  // namespace swarmpi
