#include "model/inference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "model/make_backend.hpp"
#include "model/stage_model.hpp"

namespace swarmpi {
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

TEST(Inference, GivesTheLogitsOfTheTrainedModelForEveryLengthOfText) {
  const Config config = small();
  const auto backend = make_backend(config).value();
  backend->prepare_thread();
  StageModel trained(config, partition_model(config.model, 1).front(), *backend, 0);
  trained.initialize();
  Inference inference(config, *backend);
  const auto saved = trained.state();
  const auto weights = inference.weights();
  ASSERT_EQ(saved.size(), weights.size());
  for (std::size_t i = 0; i < saved.size(); ++i)
    std::copy_n(saved[i].weights.front(), saved[i].count(), weights[i].weights.front());
  inference.loaded();

  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < config.model.context; ++i) tokens.push_back(i * i % 11);
  std::vector<float> all(static_cast<std::size_t>(config.model.context * config.model.vocab));
  trained.logits(tokens, {}, {all.data(), config.model.context, config.model.vocab});

  // Around the rounding of lengths, and down again: the passes are made anew.
  for (const std::size_t length : {1, 31, 32, 33, 40, 7}) {
    std::vector<float> logits(static_cast<std::size_t>(config.model.vocab));
    inference.next_logits({tokens.data(), length}, logits);
    const auto expected = all.begin() + static_cast<std::ptrdiff_t>((length - 1) * logits.size());
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected)) << length << " tokens";
  }
}

}  // namespace
}  // namespace swarmpi
