#include "model/inference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "model/boundary.hpp"
#include "model/local_trainer_test.hpp"
#include "model/stage_model.hpp"

namespace swarmpi::test::inference_test {
namespace {

Config small() {
  Config config;
  config.model.layers = 2;
  config.model.width = 16;
  config.model.heads = 2;
  config.model.context = 40;
  config.model.vocab = 11;
  config.train.microbatch_size = 1;
  config.compute.kernels = Kernels::reference;
  return config;
}

std::vector<float> logits_of(StageModel& last, const Config& config,
                             const std::vector<std::int32_t>& tokens, const std::byte* x) {
  const std::int64_t count = config.model.context * config.model.vocab;
  const auto memory = last.backend().allocate(as_size(count) * sizeof(float));
  last.logits(tokens, x, {memory->as<float>(), config.model.context, config.model.vocab});
  return read_array(last.backend(), memory->as<float>(), count);
}

TEST(Inference, GivesTheLogitsOfTheTrainedModelForEveryLengthOfText) {
  const Config config = small();
  const auto backend = ready_backend(config);
  StageModel trained(config, partition_model(config.model, 1).front(), *backend, 0);
  EXPECT_TRUE(trained.initialize().ok());
  Inference inference(config, *backend);
  const auto saved = trained.state();
  const auto weights = inference.weights();
  ASSERT_EQ(saved.size(), weights.size());
  for (std::size_t i = 0; i < saved.size(); ++i)
    copy_array(*backend, weights[i].weights.front(), saved[i].weights.front(), saved[i].count());
  inference.loaded();

  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < config.model.context; ++i) tokens.push_back(i * i % 11);
  const std::vector<float> all = logits_of(trained, config, tokens, nullptr);

  // Around the rounding of lengths, and down again: the passes are made anew.
  for (const std::size_t length : {1, 31, 32, 33, 40, 7}) {
    std::vector<float> logits(static_cast<std::size_t>(config.model.vocab));
    inference.next_logits({tokens.data(), length}, logits);
    const auto expected = all.begin() + static_cast<std::ptrdiff_t>((length - 1) * logits.size());
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected)) << length << " tokens";
  }
}

// All stages of one model, with the weights that an inference has.
class Stages {
 public:
  Stages(const Config& config, kernels::Backend& backend, Inference& inference) : config_(config) {
    std::vector<TensorState> weights = inference.weights();
    auto to = weights.begin();
    for (StageSpec& spec : partition_model(config)) {
      stages_.push_back(std::make_unique<StageModel>(config, std::move(spec), backend, 0));
      EXPECT_TRUE(stages_.back()->initialize().ok());
      for (const TensorState& from : stages_.back()->state()) {
        EXPECT_EQ(from.name, to->name);
        copy_array(backend, (to++)->weights.front(), from.weights.front(), from.count());
      }
    }
    inference.loaded();
  }

  /// As validation computes them.
  std::vector<float> logits(const std::vector<std::int32_t>& tokens) {
    std::vector<std::byte> x, y(static_cast<std::size_t>(boundary_bytes(config_).activations));
    for (const auto& stage : stages_) {
      const StageSpec& spec = stage->spec();
      const WorkId work{{Step(1), Purpose::validate, 0}, StageId(spec.stage)};
      if (spec.has_head) return logits_of(*stage, config_, tokens, x.data());
      stage->forward(work, tokens, {}, x.data(), y.data());
      x = y;
    }
    return {};
  }
  double loss(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& targets) {
    double nats = 0;
    std::vector<std::byte> x, y(static_cast<std::size_t>(boundary_bytes(config_).activations));
    for (const auto& stage : stages_) {
      const WorkId work{{Step(1), Purpose::validate, 0}, StageId(stage->spec().stage)};
      nats += stage->forward(work, tokens, targets, x.data(), y.data());
      x = y;
    }
    return nats;
  }

 private:
  Config config_;
  std::vector<std::unique_ptr<StageModel>> stages_;
};

TEST(Inference, GivesTheLogitsOfValidationThroughEveryBoundary) {
  std::vector<Config> configs;
  for (const Codec codec : {Codec::fp16, Codec::bf16, Codec::uniform8, Codec::blockwise8}) {
    configs.push_back(small());
    configs.back().swarm.compress_activations = codec;
  }
  for (const Boundary boundary : {Boundary::bottleneck, Boundary::maxout}) {
    configs.push_back(small());
    configs.back().swarm.boundary = boundary;
    configs.push_back(configs.back());
    configs.back().swarm.compress_activations = Codec::blockwise8;
  }
  for (Config& config : configs) {
    config.model.layers = 3;
    config.swarm.stages = 3;
    const auto backend = ready_backend(config);
    Inference inference(config, *backend);
    Stages stages(config, *backend, inference);
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < config.model.context; ++i) tokens.push_back(i * i % 11);
    const std::vector<float> expected = stages.logits(tokens);
    std::vector<float> last(static_cast<std::size_t>(config.model.vocab));
    inference.next_logits(tokens, last);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), expected.end() - config.model.vocab))
        << name_of(config.swarm.compress_activations) << " " << name_of(config.swarm.boundary);
  }
}

TEST(Inference, GivesTheLossOfValidationBetweenTexts) {
  for (const Codec codec : {Codec::none, Codec::blockwise8}) {
    Config config = small();
    config.train.microbatch_size = 3;
    config.swarm.stages = 2;
    config.swarm.compress_activations = codec;
    const auto backend = ready_backend(config);
    Inference inference(config, *backend);
    Stages stages(config, *backend, inference);
    std::vector<std::int32_t> tokens, targets;
    for (std::int32_t i = 0; i < 3 * config.model.context; ++i) {
      tokens.push_back(i * i % 11);
      targets.push_back(i < 100 ? (i + 1) * (i + 1) % 11 : kernels::kNoTarget);
    }
    std::vector<float> before(static_cast<std::size_t>(config.model.vocab)), after = before;
    inference.next_logits({tokens.data(), 7}, before);
    const double loss = inference.loss(tokens, targets);
    EXPECT_EQ(loss, stages.loss(tokens, targets)) << name_of(codec);
    EXPECT_GT(loss, 0);
    EXPECT_EQ(inference.loss(tokens, targets), loss);
    inference.next_logits({tokens.data(), 7}, after);
    EXPECT_EQ(before, after);
  }
}

}  // namespace
}  // namespace swarmpi::test::inference_test
