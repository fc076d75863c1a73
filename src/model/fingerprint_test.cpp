#include <gtest/gtest.h>

#include "model/local_trainer_test.hpp"

namespace swarmpi::test::fingerprint_test {
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

TEST(Fingerprint, RunsTheCodecsOfBoundariesWhereThereAreSome) {
  const std::uint64_t plain = fingerprint_of(tiny_deck());
  Config config = tiny_deck();
  config.swarm.compress_gradients = Codec::uniform8;
  EXPECT_EQ(fingerprint_of(config), plain) << "one stage has no boundary";
  config.swarm.stages = 2;
  const std::uint64_t expected = fingerprint_of(config);
  EXPECT_NE(expected, plain);
  config.swarm.stages = 3;
  config.swarm.cuts = {1, 3};
  EXPECT_EQ(fingerprint_of(config), expected) << "whatever the stages";
  config.swarm.compress_activations = Codec::bf16;
  EXPECT_NE(fingerprint_of(config), expected);
  config.swarm.compress_activations = Codec::fp16;
  const std::uint64_t fp16 = fingerprint_of(config);
  config.swarm.compress_gradients = Codec::none;
  config.model.shared_groups = 4;  // no two layers share
  const std::uint64_t unshared = fingerprint_of(config);
  config.model.shared_groups = 2;
  config.swarm.stages = 2;
  config.swarm.cuts = {2};
  EXPECT_NE(fingerprint_of(config), fp16);
  EXPECT_NE(fingerprint_of(config), unshared);
}

TEST(Fingerprint, RunsLearnedBoundaries) {
  Config config = tiny_deck();
  const std::uint64_t plain = fingerprint_of(config);
  config.swarm.boundary = Boundary::maxout;
  EXPECT_EQ(fingerprint_of(config), plain) << "one stage has none";
  config.swarm.stages = 3;
  const std::uint64_t maxout = fingerprint_of(config);
  EXPECT_NE(maxout, plain);
  config.swarm.boundary_factor = 4;
  EXPECT_NE(fingerprint_of(config), maxout);
  config.swarm.boundary = Boundary::bottleneck;
  const std::uint64_t bottleneck = fingerprint_of(config);
  EXPECT_NE(bottleneck, maxout);
  config.swarm.stages = 2;
  EXPECT_EQ(fingerprint_of(config), bottleneck) << "whatever the stages";
}

TEST(Fingerprint, DoesNotDependOnWhatTheBackendDidBefore) {
  const Config config = tiny_deck();
  const auto backend = ready_backend(config);
  const std::uint64_t first = fingerprint(config, *backend);
  LocalTrainer(config, *backend, 2, 1).train(2);
  EXPECT_EQ(fingerprint(config, *backend), first);
}

}  // namespace
}  // namespace swarmpi::test::fingerprint_test
