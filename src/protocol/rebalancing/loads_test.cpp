#include "protocol/rebalancing/loads.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/load_facts.hpp"

namespace swarmpi::loads_test {
namespace {

const PeerId kPeer(4);
const StageId kStage(1);

// View 1.1 stands from time 0 on; loads count for 10 s.
struct Scene {
  Scene() { loads.count_in({Term(1), 1}, 0); }
  void says(double now_s, double waited_s, std::int64_t view = 1) {
    loads.enter({{Term(1), view}, kStage, waited_s}, kPeer, now_s);
  }
  double load(double now_s) { return loads.averages(now_s).at(kStage).at(kPeer); }

  Loads loads{10};
};

TEST(Loads, WhatHasWaitedIsAveragedOverTheTime) {
  Scene scene;
  scene.says(4, 12);
  scene.loads.pass(6, true);
  EXPECT_EQ(scene.load(6), 2) << "two passes waited at a time";
}

TEST(Loads, TimeWithoutAnOpenStepDoesNotCount) {
  Scene scene;
  scene.loads.pass(2, true);
  scene.loads.pass(5, false);
  scene.says(5, 12);
  scene.loads.pass(6, true);
  EXPECT_EQ(scene.load(6), 4);
}

TEST(Loads, AReportThatComesTwiceOrLateChangesNothing) {
  Scene scene;
  scene.loads.pass(4, true);
  scene.says(4, 12);
  scene.says(4, 12);
  scene.says(4, 8);
  EXPECT_EQ(scene.load(4), 3);
}

TEST(Loads, ThoseOfAnotherViewDoNotCount) {
  Scene scene;
  scene.loads.pass(4, true);
  scene.says(4, 12, 0);
  scene.says(4, 12, 2);
  EXPECT_TRUE(scene.loads.averages(4).empty());
  scene.says(4, 12);
  scene.loads.count_in({Term(1), 2}, 4);
  scene.loads.pass(5, true);
  EXPECT_TRUE(scene.loads.averages(5).empty());
  scene.says(5, 3, 2);
  EXPECT_EQ(scene.load(5), 3);
}

TEST(Loads, ThoseOlderThanAPeriodDoNotCount) {
  Scene scene;
  scene.says(1, 12);
  scene.loads.pass(11, true);
  EXPECT_EQ(scene.loads.averages(11).size(), 1u);
  scene.loads.pass(11.5, true);
  EXPECT_TRUE(scene.loads.averages(11.5).empty());
}

TEST(Loads, AfterADecisionTheyAreCountedAnew) {
  Scene scene;
  scene.loads.pass(4, true);
  scene.says(4, 12);
  scene.loads.begin_anew();
  scene.loads.pass(6, true);
  scene.says(6, 13);
  EXPECT_EQ(scene.load(6), 0.5);
}

}  // namespace
}  // namespace swarmpi::loads_test
