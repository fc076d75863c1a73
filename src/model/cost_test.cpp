#include "model/cost.hpp"

#include <gtest/gtest.h>

#include "model/make_backend.hpp"
#include "model/stage_model.hpp"

namespace swarmpi {
namespace {

Config deck() {
  Config config;
  config.model.layers = 4;
  config.model.width = 96;
  config.model.heads = 3;
  config.model.context = 32;
  config.model.vocab = 256;
  config.train.microbatch_size = 2;
  config.compute.kernels = "reference";
  return config;
}

TEST(Cost, FlopsFollowTheFormula) {
  ModelConfig model;
  model.layers = 12;
  model.width = 768;
  model.context = 512;
  model.vocab = 256;
  const double formula = 72.0 * 12 * 768 * 768 + 6.0 * 256 * 768 + 6.0 * 12 * 512 * 768;
  EXPECT_DOUBLE_EQ(model_flops_per_token(model), formula);
  EXPECT_NEAR(formula, 539e6, 1e6);
}

TEST(Cost, PredictsTheMemoryThatAStageTakes) {
  for (const char* kernels : {"reference", "native"}) {
    for (const char* updates : {"synchronous", "delayed"}) {
      Config config = deck();
      config.compute.kernels = kernels;
      config.train.updates = updates;
      const auto backend = make_backend(config);
      for (const StageSpec& spec : partition_model(config.model, 2)) {
        const StageMemory memory = stage_memory(config, spec);
        const std::int64_t slots = 3;
        const double predicted =
            static_cast<double>(memory.state_bytes + memory.sums_bytes + memory.scratch_bytes +
                                slots * memory.activation_slot_bytes);
        const double taken =
            static_cast<double>(StageModel(config, spec, *backend, slots).memory_bytes());
        EXPECT_NEAR(predicted / taken, 1, 0.01) << kernels << ", stage " << spec.stage;
      }
    }
  }
}

TEST(Cost, SlotsFollowRecomputeAndMemory) {
  Config config = deck();
  config.swarm.stages = 2;
  config.swarm.peers = 3;
  const auto stages = partition_model(config.model, 2);
  config.compute.recompute = "always";
  EXPECT_EQ(activation_slots(config, stages), 0);
  config.compute.recompute = "never";
  EXPECT_EQ(activation_slots(config, stages), 4);
  config.swarm.window = 9;
  EXPECT_EQ(activation_slots(config, stages), 9);

  config.compute.recompute = "auto";
  EXPECT_EQ(activation_slots(config, stages), 9);
  const StageMemory first = stage_memory(config, stages[0]);
  const StageMemory last = stage_memory(config, stages[1]);
  EXPECT_EQ(last.activation_slot_bytes, 0);
  const std::int64_t fixed = first.state_bytes + first.sums_bytes + first.scratch_bytes +
                             last.state_bytes + last.sums_bytes + last.scratch_bytes;
  config.compute.memory_gb = static_cast<double>(fixed + 5 * first.activation_slot_bytes / 2) / 1e9;
  EXPECT_EQ(activation_slots(config, stages), 2);
  config.compute.memory_gb = static_cast<double>(fixed) / 2e9;
  EXPECT_EQ(activation_slots(config, stages), 0);
}

}  // namespace
}  // namespace swarmpi
