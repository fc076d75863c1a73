#include "protocol/step/lives.hpp"

#include <gtest/gtest.h>

namespace swarmpi::lives_test {
namespace {

constexpr Term kRun(5);
const PeerId kPeer(2);

GoodputRow row(std::int64_t step, double useful_s) {
  GoodputRow row;
  row.step = step;
  row.peer = kPeer.value;
  row.useful_s = useful_s;
  row.run = kRun.value;
  return row;
}

TEST(Lives, RowsAreStoredAsTheyCome) {
  Lives lives(kRun);
  lives.enter(row(1, 4), Step(1));
  lives.told_until(kPeer, 10);
  lives.enter(row(2, 5), Step(2));
  lives.told_until(kPeer, 20);
  const auto rows = lives.take();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].useful_s, 5);
  EXPECT_TRUE(lives.take().empty());
}

TEST(Lives, WhatADeadPeerDidSinceItsLastRowIsLost) {
  Lives lives(kRun);
  lives.enter(row(1, 4), Step(1));
  lives.told_until(kPeer, 10);
  (void)lives.take();
  lives.end(kPeer, &GoodputRow::repeated_s, 13, Step(1), 0);
  const auto rows = lives.take();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].step, 2);
  EXPECT_EQ(rows[0].peer, kPeer.value);
  EXPECT_EQ(rows[0].run, kRun.value);
  EXPECT_EQ(rows[0].repeated_s, 3);
  lives.end(kPeer, &GoodputRow::repeated_s, 20, Step(1), 0);
  EXPECT_TRUE(lives.take().empty()) << "a life ends once";
}

TEST(Lives, APeerThatHasNoRowsIsKnownByWhatItSaysOfItself) {
  Lives lives(kRun);
  lives.told_until(kPeer, -1);
  lives.end(kPeer, &GoodputRow::idle_s, 9, Step(7), 1);
  const auto rows = lives.take();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].idle_s, 10);
  EXPECT_EQ(rows[0].incarnation, 1);
  lives.end(PeerId(8), &GoodputRow::idle_s, 9, Step(7), 1);
  EXPECT_TRUE(lives.take().empty()) << "of this one nothing is known";
}

// It validates the last weights, tells so twice, and waits for the last checkpoint.
TEST(Lives, ARowAfterTheLastStepGrowsUntilTheEnd) {
  Lives lives(kRun);
  lives.enter(row(8, 1), Step(7));
  lives.told_until(kPeer, 10);
  lives.enter(row(8, 3), Step(7));
  lives.told_until(kPeer, 12);
  EXPECT_TRUE(lives.take().empty());
  lives.end(kPeer, &GoodputRow::idle_s, 17, Step(7), 0, 4);
  const auto rows = lives.take();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].useful_s, 3);
  EXPECT_EQ(rows[0].checkpoint_s, 4);
  EXPECT_EQ(rows[0].idle_s, 1);
}

TEST(Lives, WhatIsNotStoredOfLostStepsWasForNothing) {
  Lives lives(kRun);
  lives.enter(row(3, 1), Step(4));
  lives.told_until(kPeer, 10);
  lives.enter(row(4, 2), Step(4));
  lives.told_until(kPeer, 11);
  lives.go_back(Step(3));
  const auto rows = lives.take();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].useful_s, 1);
  EXPECT_EQ(rows[1].useful_s, 0);
  EXPECT_EQ(rows[1].repeated_s, 2);
}

}  // namespace
}  // namespace swarmpi::lives_test
