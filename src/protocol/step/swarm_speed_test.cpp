#include "protocol/step/swarm_speed.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace swarmpi {
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

TEST(SwarmSpeed, WithFewerPeersThanStagesThereIsNoAllocationToCompareWith) {
  View view;
  for (const std::int32_t stage : {0, 1}) view.serve(PeerId(0), StageId(stage));
  SwarmSpeed speed({1.0, 3.0});
  speed.measure({row(0, 0, 4, 1), row(0, 1, 4, 3)});
  EXPECT_DOUBLE_EQ(speed.ideal_per_s(view), 1);
  EXPECT_TRUE(std::isnan(speed.fraction_of_capacity(view)));
}

}  // namespace
}  // namespace swarmpi
