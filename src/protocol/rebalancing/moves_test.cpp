#include "protocol/rebalancing/moves.hpp"

#include <gtest/gtest.h>

#include "protocol/membership/hearing_test.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::moves_test {
namespace {

// Peers 0 and 1 serve stage 0, peer 2 alone serves stage 1.
struct Scene {
  explicit Scene(std::vector<Move> planned) : moves(std::move(planned)) {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
  }
  bool advance(std::int64_t committed, double now_s = 0) {
    return moves.advance(view, departures, learners, Step(committed), now_s);
  }

  RunPlan plan = testing::tiny_plan(2, 9);
  View view;
  Departures departures;
  Learners learners{plan, 3, PeerId(2)};
  Moves moves;
};

const Move kMove{Step(3), PeerId(1), StageId(1)};

TEST(Moves, APeerLearnsTheNewStageAndThenLeavesTheOld) {
  Scene scene({kMove});
  EXPECT_FALSE(scene.advance(2)) << "it is not due";
  EXPECT_TRUE(scene.advance(3));
  EXPECT_TRUE(scene.view.learns(PeerId(1), StageId(1)));
  EXPECT_TRUE(scene.view.leaving().empty());
  EXPECT_FALSE(scene.advance(4)) << "it learns still";
  scene.view.serve(PeerId(1), StageId(1));
  EXPECT_TRUE(scene.advance(5));
  EXPECT_TRUE(scene.view.leaves(PeerId(1), StageId(0)));
  EXPECT_FALSE(scene.view.leaves(PeerId(1), StageId(1)));
  EXPECT_FALSE(scene.advance(6)) << "it is made";
}

TEST(Moves, AStageThatNobodyElseServesIsNotLeft) {
  Scene scene({{Step(3), PeerId(2), StageId(0)}});
  scene.view.serve(PeerId(2), StageId(0));
  EXPECT_FALSE(scene.advance(3));
  EXPECT_TRUE(scene.view.leaving().empty());
  EXPECT_TRUE(scene.view.serves(PeerId(2), StageId(1)));
}

TEST(Moves, APeerThatWasLeavingTheNewStageStaysInIt) {
  Scene scene({kMove});
  scene.view.serve(PeerId(1), StageId(1));
  scene.view.set_leaving(PeerId(1), StageId(1), true);
  EXPECT_TRUE(scene.advance(3));
  EXPECT_FALSE(scene.view.leaves(PeerId(1), StageId(1)));
  EXPECT_TRUE(scene.view.leaves(PeerId(1), StageId(0)));
}

TEST(Moves, ALearnerThatWasDroppedBeginsAgainAfterItsPause) {
  Scene scene({kMove});
  scene.advance(3);
  const double pause_s = scene.learners.drop(scene.view, PeerId(1), StageId(1), 10);
  EXPECT_FALSE(scene.advance(4, 10));
  EXPECT_TRUE(scene.advance(4, 10 + pause_s));
  EXPECT_TRUE(scene.view.learns(PeerId(1), StageId(1)));
}

// A new leader finds moves due that a leader before it has made.
TEST(Moves, OfSeveralThatAreDueForAPeerTheLastCounts) {
  Scene scene({kMove, {Step(4), PeerId(0), StageId(1)}, {Step(5), PeerId(1), StageId(0)}});
  EXPECT_TRUE(scene.advance(5));
  EXPECT_FALSE(scene.view.learns(PeerId(1), StageId(1)));
  EXPECT_TRUE(scene.view.learns(PeerId(0), StageId(1))) << "of peer 0 it is the only one";
}

TEST(Moves, WhoDiesDepartsOrServesNothingDoesNotMoveAnyMore) {
  for (const int what : {0, 1, 2}) {
    Scene scene({kMove});
    if (what == 0) scene.view.remove(PeerId(1));
    if (what == 1) scene.view.take_from(PeerId(1), StageId(0));
    scene.departures.notice(PeerId(1), "preempted", 0);
    if (what == 2) scene.departures.begin(scene.view, 1, 1, testing::kAllAreHeard);
    EXPECT_FALSE(scene.advance(3)) << what;
    scene.departures.lost(PeerId(1));
    scene.view.serve(PeerId(1), StageId(0));
    EXPECT_FALSE(scene.advance(4)) << "it is given up, " << what;
  }
}

}  // namespace
}  // namespace swarmpi::moves_test
