#include "runtime/assembly.hpp"

#include <gtest/gtest.h>

#include "model/cost.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi::test {
namespace {

// A peer that moves holds its old stage and its new one; that of the largest two is asked for.
TEST(Assembly, MovesThatDoNotFitIntoMemoryAreRefused) {
  Config config = tiny_deck();
  config.model.layers = 3;
  config.swarm.rebalance = Rebalance::paper;
  const auto backend = ready_backend(config);
  const std::vector<StageSpec> stages = partition_model(config.model, 3);
  std::int64_t largest_bytes = 0;
  for (const auto& [a, b] : {std::pair{0u, 1u}, {0u, 2u}, {1u, 2u}}) {
    const PeerMemory both = peer_memory(config, {stages[a], stages[b]}, *backend);
    largest_bytes = std::max(largest_bytes, both.fixed_bytes + both.gradient_bytes);
  }
  const auto refused = [&](std::int64_t allowed_bytes) {
    config.compute.memory_gb = static_cast<double>(allowed_bytes) / 1e9;
    return refuse_moves_too_large(config, stages, *backend, 6);
  };
  EXPECT_TRUE(refused(largest_bytes + 1000).ok());
  const Status status = refused(largest_bytes - 1000);
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  EXPECT_NE(status.message().find("holds both for a while"), std::string::npos);
  config.swarm.rebalance = Rebalance::none;
  EXPECT_TRUE(refused(largest_bytes - 1000).ok()) << "nobody moves";
}

}  // namespace
}  // namespace swarmpi::test
