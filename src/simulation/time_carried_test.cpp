#include "simulation/time_carried.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/microbatches.hpp"

namespace swarmpi::time_carried_test {
namespace {

TEST(TimeCarried, TwoMessagesAtATimeCountOnce) {
  TimeCarried carried;
  EXPECT_EQ(carried.until(5), 0);
  carried.add(10, 14);
  EXPECT_EQ(carried.until(11), 1);
  carried.add(11, 13);  // comes before the first
  carried.add(12, 16);
  EXPECT_EQ(carried.until(15), 5);
  EXPECT_EQ(carried.until(20), 6);
  carried.add(30, 33);
  EXPECT_EQ(carried.until(30), 6);
  EXPECT_EQ(carried.until(40), 9);
}

TEST(TimeCarried, AMessageThatNeverComesIsOnItsWay) {
  TimeCarried carried;
  carried.add(1, 1e9);
  EXPECT_EQ(carried.until(101), 100);
}

TEST(TimeCarried, SignsOfLifeAreAwaitedByNobodyWhoWorks) {
  EXPECT_FALSE(may_be_awaited({{}, {}, HeartbeatMessage{}}));
  EXPECT_FALSE(may_be_awaited({{}, {}, ForwardDone{}}));
  EXPECT_TRUE(may_be_awaited({{}, {}, CommitMessage{}}));
  EXPECT_TRUE(may_be_awaited({{}, {}, BackwardMessage{}}));
}

}  // namespace
}  // namespace swarmpi::time_carried_test
