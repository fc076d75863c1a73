#include "protocol/step/swarm_speed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.hpp"

namespace swarmpi::swarm_speed_test {
namespace {

PeerRow row(std::int64_t peer, std::int64_t stage, std::int64_t microbatches, double useful_s) {
  return {.peer = peer, .stage = stage, .microbatches = microbatches, .useful_s = useful_s};
}

// Each gets half of the microbatches: the step takes as long as the slow one, 8 * 4 s, where 16
// microbatches would take both together 16 / 1.25 s.
TEST(SwarmSpeed, APeerFourTimesSlowerLeavesTwoFifthsOfTheIdeal) {
  View view;
  for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
  SwarmSpeed speed({7.0});
  EXPECT_EQ(speed.ideal_per_s(view), 0);
  speed.measure({row(0, 0, 8, 8), row(1, 0, 8, 32)});
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 1.25);
  EXPECT_DOUBLE_EQ(16.0 / 32 / speed.ideal_per_s(view), 0.4);
  EXPECT_DOUBLE_EQ(speed.fraction_of_capacity(view), 1) << "a single stage cannot be unbalanced";
}

// Repeated passes take time that is not useful, and their microbatches were counted before.
TEST(SwarmSpeed, RepeatedPassesAreNoUsefulWork) {
  View view;
  view.serve(PeerId(0), StageId(0));
  SwarmSpeed speed({1.0});
  PeerRow with_repeats = row(0, 0, 12, 4);
  with_repeats.repeated = 4;
  with_repeats.compute_s = 9;
  speed.measure({with_repeats});
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 2);
}

TEST(SwarmSpeed, OnlyPeersThatServeCountAndOneWithoutWorkKeepsItsSpeed) {
  View view;
  for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
  SwarmSpeed speed({1.0});
  speed.measure({row(0, 0, 4, 2), row(1, 0, 4, 4), row(2, 0, 4, 1)});
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 3) << "peer 2 is gone";
  speed.measure({row(0, 0, 8, 4), row(1, 0, 0, 0)});
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 3);
  view.remove(PeerId(1));
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 2);
}

// Three peers in a stage and one in the other, which costs as much: two in each would be best.
TEST(SwarmSpeed, CapacityIsTheWeakestStagesOverThatOfTheBestAllocation) {
  View view;
  for (const std::int32_t id : {0, 1, 2}) view.serve(PeerId(id), StageId(0));
  view.serve(PeerId(3), StageId(1));
  SwarmSpeed speed({2.0, 2.0});
  EXPECT_TRUE(std::isnan(speed.fraction_of_capacity(view))) << "nothing is known";
  speed.measure({row(0, 0, 2, 2), row(1, 0, 2, 2), row(2, 0, 2, 2), row(3, 1, 6, 6)});
  EXPECT_DOUBLE_EQ(speed.fraction_of_capacity(view), 0.5);
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 2) << "as if each did its part of both stages";
}

// The stage that costs twice as much has the peer of half the speed.
TEST(SwarmSpeed, TheFastPeerOnTheCheapStageIsNotTheBestAllocation) {
  View view;
  for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(id));
  SwarmSpeed speed({1.0, 2.0});
  speed.measure({row(0, 0, 2, 1), row(1, 1, 1, 2)});
  EXPECT_DOUBLE_EQ(speed.fraction_of_capacity(view), 0.5);
}

// Of all ways to give each peer a stage, what the weakest stage can do at best.
double best_of_all(const std::vector<double>& costs, const std::vector<double>& speeds) {
  std::size_t ways = 1;
  for (std::size_t peer = 0; peer < speeds.size(); ++peer) ways *= costs.size();
  double best = 0;
  for (std::size_t way = 0; way < ways; ++way) {
    std::vector<double> rates(costs.size(), 0.0);
    std::size_t digits = way;
    for (const double speed : speeds) {
      rates[digits % costs.size()] += speed / costs[digits % costs.size()];
      digits /= costs.size();
    }
    best = std::max(best, *std::min_element(rates.begin(), rates.end()));
  }
  return best;
}

TEST(SwarmSpeed, UpToSixPeersAndThreeStagesNoAllocationIsBetterThanTheBest) {
  RandomStream random(1, Stream::test, 0);
  const auto draw = [&] { return random.uniform(0.25, 1.25); };
  for (std::size_t trial = 0; trial < 200; ++trial) {
    const std::size_t stages = 1 + trial % 3, peers = stages + random.below(7 - stages);
    std::vector<double> costs, speeds;
    std::vector<PeerRow> rows;
    for (std::size_t stage = 0; stage < stages; ++stage) costs.push_back(draw());
    View view;
    std::vector<double> now(stages, 0.0);
    for (std::size_t peer = 0; peer < peers; ++peer) {
      const std::size_t stage = peer < stages ? peer : random.below(stages);
      const auto id = static_cast<std::int64_t>(peer);
      view.serve(PeerId(static_cast<std::int32_t>(peer)),
                 StageId(static_cast<std::int32_t>(stage)));
      speeds.push_back(draw());
      rows.push_back(row(id, static_cast<std::int64_t>(stage), 1, costs[stage] / speeds[peer]));
      now[stage] += speeds[peer] / costs[stage];
    }
    SwarmSpeed speed(costs);
    speed.measure(rows);
    const double weakest = *std::min_element(now.begin(), now.end());
    EXPECT_NEAR(speed.fraction_of_capacity(view), weakest / best_of_all(costs, speeds), 1e-12)
        << "trial " << trial;
  }
}

// Too many to try them all: equal peers, each stage by what it costs.
TEST(SwarmSpeed, ManyPeersThatAreSpreadByCostLeaveNothingToGain) {
  View view;
  std::vector<PeerRow> rows;
  for (std::int32_t id = 0; id < 24; ++id) {
    const std::int32_t stage = id < 16 ? 1 : 0;
    view.serve(PeerId(id), StageId(stage));
    rows.push_back(row(id, stage, 2 - stage, 1));
  }
  SwarmSpeed speed({1.0, 2.0});
  speed.measure(rows);
  EXPECT_DOUBLE_EQ(speed.fraction_of_capacity(view), 1);
}

TEST(SwarmSpeed, WithFewerPeersThanStagesThereIsNoAllocationToCompareWith) {
  View view;
  for (const std::int32_t stage : {0, 1}) view.serve(PeerId(0), StageId(stage));
  SwarmSpeed speed({1.0, 3.0});
  speed.measure({row(0, 0, 4, 1), row(0, 1, 4, 3)});
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 1);
  EXPECT_TRUE(std::isnan(speed.fraction_of_capacity(view)));
}

}  // namespace
}  // namespace swarmpi::swarm_speed_test
