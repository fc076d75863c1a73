#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "core/hash.hpp"
#include "core/random.hpp"
#include "kernels/fixed_point.hpp"
#include "model/boundary.hpp"
#include "model/numeric_rules.hpp"
#include "model/stage_model.hpp"
#include "protocol/step/commit_record.hpp"
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

/// One block, or one on either side of a cut where that is more than a copy. Where layers share
/// weights, a block is two that do: their gradients are added.
Config one_block(Config config) {
  const bool shares = config.model.layers > config.model.layer_sets();
  const std::int64_t blocks = config.swarm.cuts_matter() ? 2 : 1;
  config.model.layers = blocks * (shares ? 2 : 1);
  config.model.shared_groups = shares ? blocks : 0;
  config.swarm.stages = blocks;
  config.swarm.cuts.clear();
  config.train.updates = Updates::synchronous;
  config.train.seed = kSeed;
  config.model.initial.clear();
  return config;
}

/// The stages of such a model, and what they say of their passes and updates.
class TrainedBlock {
 public:
  TrainedBlock(const Config& config, kernels::Backend& backend)
      : tokens_(keyed_tokens(config, 0)), targets_(keyed_tokens(config, 1)) {
    for (StageSpec& spec : partition_model(config)) {
      tensors_ += spec.tensors.size();
      stages_.push_back(std::make_unique<StageModel>(config, std::move(spec), backend, 0));
      SWARMPI_CHECK(stages_.back()->initialize().ok(), "no file is read");
    }
    const BoundaryBytes bytes = boundary_bytes(config);
    activations_.resize(static_cast<std::size_t>(bytes.activations));
    gradients_.resize(static_cast<std::size_t>(bytes.gradients));
  }

  std::size_t tensors() const { return tensors_; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(tokens_.size()); }

  /// Forward and back again. Returns the exponents that it measured, by tensor.
  Exponents pass(Step step, const Exponents& exponents, StreamHash& hash) {
    const MicrobatchId id{step, Purpose::train, 0};
    StageModel& first = *stages_.front();
    if (stages_.size() > 1) {
      first.forward({id, StageId(0)}, tokens_, targets_, nullptr, activations_.data());
    }
    Exponents measured(tensors_, kernels::kNoExponent);
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      StageModel& model = **stage;
      const auto answer =
          model.backward({id, StageId(model.spec().stage)}, tokens_, targets_, activations_.data(),
                         gradients_.data(), gradients_.data(), exponents);
      if (model.spec().has_head) hash.add(&answer.loss_nats, sizeof answer.loss_nats);
      for (std::size_t i = 0; i < answer.contributions.size(); ++i) {
        const auto id_of_tensor = static_cast<std::size_t>(model.spec().tensors[i].id);
        measured[id_of_tensor] = answer.contributions[i].exponent;
      }
    }
    return measured;
  }

  void reduce(Step step, const Exponents& exponents, StreamHash& hash) {
    for (const auto& stage : stages_) {
      for (const double square : stage->reduce(step, exponents, tokens())) {
        hash.add(&square, sizeof square);
      }
    }
  }

  /// The hash of the state.
  std::uint64_t apply(const CommitRecord& record) {
    std::uint64_t sum = 0;
    for (const auto& stage : stages_) {
      for (const std::uint64_t hash : stage->apply(record)) sum += hash;
    }
    return sum;
  }

 private:
  std::vector<std::unique_ptr<StageModel>> stages_;
  std::size_t tensors_ = 0;
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<std::byte> activations_, gradients_;  // on the way across the cut
};

}  // namespace

std::uint64_t fingerprint(const Config& config, kernels::Backend& backend) {
  const Config deck = one_block(config);
  TrainedBlock block(deck, backend);
  StreamHash hash;
  hash.add(&kRulesVersion, sizeof kRulesVersion);
  // As in a run: step 0 measures the exponents, step 1 adds, rounds and updates.
  const Exponents none(block.tensors(), kernels::kNoExponent);
  const Exponents exponents = block.pass(Step(0), none, hash);
  CommitRecord record;
  record.skipped = true;
  block.apply(record);

  block.pass(Step(1), exponents, hash);
  block.reduce(Step(1), exponents, hash);
  for (const std::int16_t exponent : exponents) hash.add(&exponent, sizeof exponent);
  record.step = Step(1);
  record.skipped = false;
  record.lr = 1e-3f;
  record.correction1 = bias_correction(deck.train.beta1, 1);
  record.correction2 = bias_correction(deck.train.beta2, 1);
  // The moments carry every bit of the gradients.
  const std::uint64_t state = block.apply(record);
  hash.add(&state, sizeof state);
  const std::string identity = backend.identity();
  if (!identity.empty()) hash.add(identity.data(), identity.size());
  return hash.value();
}

}  // namespace swarmpi
