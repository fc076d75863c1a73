#include "protocol/membership/call_watch.hpp"

#include <gtest/gtest.h>

#include "protocol/membership/awake_clock.hpp"

namespace swarmpi::call_watch_test {
namespace {

TEST(CallWatch, ACallThatDoesNotReturnStandsStill) {
  CallWatch lane;
  EXPECT_EQ(lane.still_s(5), 0) << "nothing was asked";
  lane.asked(5);
  EXPECT_TRUE(lane.busy());
  lane.probed({0, 1, "syncing a"}, 5.5);
  lane.probed({0, 1, "syncing a"}, 8);
  EXPECT_EQ(lane.still_s(9), 3.5);
  EXPECT_EQ(lane.running(), "syncing a");
  lane.probed({0, 2, "syncing a"}, 9);
  EXPECT_EQ(lane.still_s(9.5), 0.5) << "another call of the same name";
  lane.probed({1, 3, ""}, 10);
  EXPECT_FALSE(lane.busy());
  EXPECT_EQ(lane.still_s(20), 0);
}

TEST(CallWatch, ALaneThatComputesComesOn) {
  CallWatch lane;
  lane.asked(5);
  lane.probed({0, 1, "storing a stage", 0.1}, 5.5);
  lane.probed({0, 1, "storing a stage", 0.9}, 8);
  EXPECT_EQ(lane.still_s(9), 1);
  lane.probed({0, 1, "storing a stage", 0.901}, 10);
  EXPECT_EQ(lane.still_s(11), 3) << "it looks now and then whether it can go on";
}

TEST(CallWatch, WhatIsAskedWhileACallHangsChangesNothing) {
  CallWatch lane;
  lane.asked(0);
  lane.probed({0, 0, "syncing a"}, 0.5);
  lane.asked(3);
  EXPECT_EQ(lane.still_s(4), 3.5);
}

TEST(CallWatch, AProbeThatIsOlderThanWhatWasAskedDoesNotEndTheWatch) {
  CallWatch lane;
  lane.asked(0);
  lane.asked(1);
  lane.probed({1, 4, ""}, 1.1);  // taken before the second was handed on
  EXPECT_TRUE(lane.busy());
  lane.probed({1, 4, "marking the end"}, 2);
  EXPECT_EQ(lane.still_s(9), 7);
}

TEST(AwakeClock, TimeInWhichThisPeerWasStoppedDoesNotCount) {
  AwakeClock clock(2);
  for (const double now_s : {10.0, 11.0, 71.0, 72.0}) clock.passed(now_s);
  EXPECT_EQ(clock.awake_s(), 1 + 2 + 1);
}

}  // namespace
}  // namespace swarmpi::call_watch_test
