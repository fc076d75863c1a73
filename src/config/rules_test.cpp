#include "config/rules.hpp"

#include <gtest/gtest.h>

namespace swarmpi::rules_test {
namespace {

std::string message_of(const Config& config, std::int64_t ranks) {
  const Status status = check_ranks(config, ranks);
  if (status.ok()) return "enough";
  EXPECT_EQ(status.code(), ExitStatus::bad_input);
  return status.message();
}

Config deck(std::int64_t stages, std::int64_t spares, std::vector<std::int64_t> pins = {}) {
  Config config;
  config.swarm.stages = stages;
  config.swarm.spares = spares;
  config.swarm.pins = std::move(pins);
  return config;
}

TEST(Rules, TheWindowIsTwiceTheStagesAndAtLeastTheWorkers) {
  SwarmConfig swarm;
  swarm.stages = 4;
  EXPECT_EQ(swarm.in_flight(1), 8);
  EXPECT_EQ(swarm.in_flight(8), 8);
  EXPECT_EQ(swarm.in_flight(13), 13);
  swarm.window = 5;
  EXPECT_EQ(swarm.in_flight(13), 5);
}

struct Collecting {
  Config config;
  Collecting() {
    config.swarm.collectives = Collectives::nccl;
    config.compute.kernels = Kernels::cuda;
  }
  std::string broken() const {
    const auto rule = broken_rule_of_collectives(config);
    return rule ? rule->keys.front() + ": " + rule->message : "none";
  }
};

TEST(RulesOfCollectives, AllSumsLieOnGpus) {
  Collecting deck;
  EXPECT_EQ(deck.broken(), "none");
  deck.config.peer_classes.resize(2);
  deck.config.peer_classes[1].kernels = PeerKernels::native;
  EXPECT_EQ(deck.broken(),
            "peers[1].kernels: swarm.collectives = \"nccl\" needs compute.kernels = \"cuda\" at "
            "all peers, and peers.kernels = \"native\" is another: leave it out, or "
            "swarm.collectives = \"none\"");
  deck.config.compute.kernels = Kernels::native;
  EXPECT_EQ(deck.broken(),
            "swarm.collectives: swarm.collectives = \"nccl\" needs compute.kernels = \"cuda\", not "
            "\"native\": take that, or swarm.collectives = \"none\"");
  deck.config.swarm.collectives = Collectives::none;
  EXPECT_EQ(deck.broken(), "none");
}

TEST(RulesOfCollectives, OwnersSendTheirSharesPointToPoint) {
  Collecting deck;
  deck.config.swarm.method = Method::zero_offload;
  EXPECT_EQ(deck.broken(),
            "swarm.collectives: swarm.collectives = \"nccl\": swarm.method = \"zero_offload\" "
            "stays point to point: take \"data_parallel\", or swarm.collectives = \"none\"");
}

TEST(CheckRanks, OneWorkerIsEnoughForAnyNumberOfStages) {
  EXPECT_EQ(message_of(deck(8, 0), 1), "enough");
  EXPECT_EQ(message_of(deck(8, 3), 4), "enough");
}

TEST(CheckRanks, SparesAloneAreNotEnough) {
  EXPECT_EQ(message_of(deck(1, 4), 4),
            "swarm.spares: not enough ranks: 4 spares of 4 ranks would leave no worker");
  EXPECT_EQ(message_of(deck(1, 1), 1),
            "swarm.spares: not enough ranks: 1 spare of 1 rank would leave no worker");
}

TEST(CheckRanks, PinsNeedAWorkerEach) {
  EXPECT_EQ(message_of(deck(2, 1, {0, 1, 1}), 4), "enough");
  EXPECT_EQ(message_of(deck(2, 1, {0, 1, 1}), 3),
            "swarm.pins: 3 peers pinned, but there are 2 workers (ranks less swarm.spares = 1)");
}

TEST(CheckRanks, PinsNeedAWorkerForEachStage) {
  EXPECT_EQ(message_of(deck(3, 0, {0}), 2),
            "swarm.pins: pinned peers serve one stage each, but there are 2 workers (ranks less "
            "swarm.spares = 0) for swarm.stages = 3");
  EXPECT_EQ(message_of(deck(2, 0, {0}), 1),
            "swarm.pins: pinned peers serve one stage each, but there is 1 worker (ranks less "
            "swarm.spares = 0) for swarm.stages = 2");
}

TEST(CheckRanks, PinsMustLeaveAWorkerForEveryStageWithoutOne) {
  EXPECT_EQ(message_of(deck(3, 0, {0, 0}), 4), "enough");
  EXPECT_EQ(message_of(deck(3, 0, {0, 0}), 3),
            "swarm.pins: 2 stages, the first of them 1, left for 1 worker that no pin names");
  EXPECT_EQ(message_of(deck(3, 0, {0, 2, 2}), 3),
            "swarm.pins: 1 stage, the first of them 1, left for 0 workers that no pin names");
}

TEST(CheckRanks, AFaultNeedsItsPeer) {
  Config config;
  config.faults_at = {{7, 1, FaultEvent::flip}, {7, 4, FaultEvent::flip}};
  EXPECT_EQ(message_of(config, 5), "enough");
  EXPECT_EQ(message_of(config, 4), "faults.at[1]: there is no peer 4 among 4 ranks");
}

TEST(CheckRanks, ABitFlipsOnceAndInAWorker) {
  Config config;
  config.faults_at = {{7, 1, FaultEvent::flip}, {8, 1, FaultEvent::flip}};
  EXPECT_EQ(message_of(config, 3), "faults.at[1]: peer 1 has a bit flipped already");
  config.faults_at = {{7, 2, FaultEvent::flip}};
  config.swarm.spares = 1;
  EXPECT_EQ(
      message_of(config, 3),
      "faults.at[0]: peer 2 is a spare, without work or state; only faults.trace can kill it");
}

}  // namespace
}  // namespace swarmpi::rules_test
