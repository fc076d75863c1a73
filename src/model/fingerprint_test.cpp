#include <gtest/gtest.h>

#include "model/local_trainer_test.hpp"

namespace swarmpi::test {
namespace {

std::uint64_t fingerprint_of(const Config& config) {
  return fingerprint(config, *ready_backend(config));
}

TEST(Fingerprint, IsTheSameWhateverTheStagesLayersSeedsAndUpdates) {
  const std::uint64_t expected = fingerprint_of(tiny_deck());
  Config config = tiny_deck();
  config.swarm.stages = 2;
  config.model.layers = 8;
  config.train.seed = 9;
  config.train.updates = Updates::delayed;
  EXPECT_EQ(fingerprint_of(config), expected);
  config.model.shared_groups = 8;  // no two layers share
  EXPECT_EQ(fingerprint_of(config), expected);
}

TEST(Fingerprint, CoversSharedWeightsWhateverTheGroups) {
  Config config = tiny_deck();
  const std::uint64_t plain = fingerprint_of(config);
  config.model.shared_groups = 2;
  const std::uint64_t expected = fingerprint_of(config);
  EXPECT_NE(expected, plain);
  config.model.layers = 12;
  config.model.shared_groups = 4;
  config.swarm.stages = 3;
  EXPECT_EQ(fingerprint_of(config), expected);
}

TEST(Fingerprint, ShowsPrecisionAndShapes) {
  const std::uint64_t expected = fingerprint_of(tiny_deck());
  Config config = tiny_deck();
  config.model.precision = Precision::bf16;
  EXPECT_NE(fingerprint_of(config), expected);
  config = tiny_deck();
  config.train.microbatch_size = 3;
  EXPECT_NE(fingerprint_of(config), expected);
}

TEST(Fingerprint, DoesNotDependOnWhatTheBackendDidBefore) {
  const Config config = tiny_deck();
  const auto backend = ready_backend(config);
  const std::uint64_t first = fingerprint(config, *backend);
  LocalTrainer(config, *backend, 2, 1).train(2);
  EXPECT_EQ(fingerprint(config, *backend), first);
}

}  // namespace
}  // namespace swarmpi::test
