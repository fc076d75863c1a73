// A run that begins with the weights of a file.

#include "model/initial_weights.hpp"

#include <gtest/gtest.h>

#include "io/test_support.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi::test::initial_weights_test {
namespace {

float value_of(const TensorInfo& tensor, std::int64_t element) {
  return 0.01f * static_cast<float>(tensor.id) - 0.001f * static_cast<float>(element % 7);
}

// A deck, and a file with weights for its model.
struct DeckWithWeights {
  explicit DeckWithWeights(Config of = tiny_deck()) : config(std::move(of)) {
    config.model.initial = folder / "weights.h5";
    write(config.model);
  }
  void write(const ModelConfig& model) const {
    std::vector<WeightsEntry> entries;
    std::vector<std::vector<float>> values;
    std::vector<const float*> arrays;
    for (const TensorInfo& tensor : model_tensors(model)) {
      entries.push_back(entry_of(tensor));
      std::vector<float>& own = values.emplace_back();
      for (std::int64_t i = 0; i < tensor.count(); ++i) own.push_back(value_of(tensor, i));
    }
    for (const std::vector<float>& own : values) arrays.push_back(own.data());
    ASSERT_TRUE(write_weights_file(config.model.initial, entries, arrays).ok());
  }
  TestFolder folder;
  Config config;
};

void expect_refused(const Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

TEST(InitialWeights, EachStageBeginsWithItsPartOfTheFile) {
  const DeckWithWeights deck;
  const auto backend = ready_backend(deck.config);
  for (const StageSpec& spec : partition_model(deck.config.model, 2)) {
    StageModel stage(deck.config, spec, *backend, 0);
    ASSERT_TRUE(stage.initialize().ok());
    for (std::size_t i = 0; i < spec.tensors.size(); ++i) {
      const TensorInfo& tensor = spec.tensors[i];
      const auto found = read_array(*backend, stage.state()[i].weights[0], tensor.count());
      for (std::int64_t e = 0; e < tensor.count(); ++e) {
        ASSERT_EQ(found[as_size(e)], value_of(tensor, e)) << tensor.name;
      }
    }
  }
}

// No file has those: they depend on where the model is cut.
TEST(InitialWeights, LearnedBoundariesBeginAsTheSeedSays) {
  Config config = tiny_deck();
  config.swarm.stages = 2;
  config.swarm.boundary = Boundary::bottleneck;
  const DeckWithWeights deck(config);
  const auto backend = ready_backend(deck.config);
  const StageSpec first = partition_model(deck.config).front();
  StageModel from_file(deck.config, first, *backend, 0), drawn(config, first, *backend, 0);
  ASSERT_TRUE(from_file.initialize().ok());
  ASSERT_TRUE(drawn.initialize().ok());
  std::size_t learned = 0;
  for (std::size_t i = 0; i < first.tensors.size(); ++i) {
    const TensorInfo& tensor = first.tensors[i];
    const auto values = [&](StageModel& stage) {
      return read_array(*backend, stage.state()[i].weights[0], tensor.count());
    };
    EXPECT_EQ(values(from_file) == values(drawn), tensor.cut >= 0) << tensor.name;
    learned += tensor.cut >= 0 ? 1 : 0;
  }
  EXPECT_GT(learned, 0u);
}

TEST(InitialWeights, TheDeckIsToldTheirHashAndHoldsThemToIt) {
  const DeckWithWeights deck;
  ModelConfig model = deck.config.model;
  ASSERT_TRUE(adopt_initial_weights(model).ok());
  EXPECT_EQ(model.initial_hash.size(), 16u);
  EXPECT_TRUE(adopt_initial_weights(model).ok()) << "as where the run is resumed";
  model.initial_hash = "0123456789abcdef";
  expect_refused(adopt_initial_weights(model), "model.initial_hash");
}

TEST(InitialWeights, OfAnotherModelAreRefused) {
  const DeckWithWeights deck;
  ModelConfig wider = deck.config.model;
  wider.vocab += 1;
  expect_refused(adopt_initial_weights(wider), "embedding.tokens");
  ModelConfig deeper = deck.config.model;
  deeper.layers += 1;
  expect_refused(adopt_initial_weights(deeper), "has no tensor layer.4");
  ModelConfig none = deck.config.model;
  none.initial = deck.folder / "none.h5";
  expect_refused(adopt_initial_weights(none), "model.initial: cannot read");
}

// As where somebody writes other weights there while a run goes on that goes back to its start.
TEST(InitialWeights, AStageDoesNotBeginWithOtherWeightsThanTheDeckSays) {
  DeckWithWeights deck;
  ASSERT_TRUE(adopt_initial_weights(deck.config.model).ok());
  const auto backend = ready_backend(deck.config);
  StageModel stage(deck.config, partition_model(deck.config.model, 2).front(), *backend, 0);
  EXPECT_TRUE(stage.initialize().ok());
  ModelConfig other = deck.config.model;
  other.layers += 1;
  deck.write(other);
  expect_refused(stage.initialize(), "model.initial_hash");
}

}  // namespace
}  // namespace swarmpi::test::initial_weights_test
