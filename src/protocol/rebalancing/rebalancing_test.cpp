#include "protocol/rebalancing/rebalancing.hpp"

#include <gtest/gtest.h>

#include "protocol/membership/hearing_test.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::rebalancing_test {
namespace {

const StageId kFront(0), kMiddle(1), kBack(2);

// Peers 0 to 2 serve stage 0, peers 3 and 4 stage 1, peer 5 alone stage 2; peer 6 is a spare.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1, 2}) view.serve(PeerId(id), kFront);
    for (const std::int32_t id : {3, 4}) view.serve(PeerId(id), kMiddle);
    view.serve(PeerId(5), kBack);
    view.add(PeerId(6));
    plan.swarm.rebalance = Rebalance::paper;
    plan.swarm.rebalance_period_s = 10;
  }
  std::optional<StageMove> chosen(RebalanceLoad how = RebalanceLoad::sum) {
    const auto may_learn = [this](PeerId peer, StageId) { return !backing_off.contains(peer); };
    return choose_move(view, departures, may_learn, loads, how);
  }
  void departs(std::int32_t peer) {
    departures.notice(PeerId(peer), "preempted", 0);
    departures.begin(view, 1, 1, testing::kAllAreHeard);
  }

  RunPlan plan = testing::tiny_plan(3, 9);
  View view;
  Departures departures;
  Learners learners{plan, 6, PeerId(6)};
  std::set<PeerId> backing_off;
  StageLoads loads{{kFront, {{PeerId(0), 0.3}, {PeerId(1), 0.1}, {PeerId(2), 0.2}}},
                   {kMiddle, {{PeerId(3), 1}, {PeerId(4), 2}}},
                   {kBack, {{PeerId(5), 5}}}};
};

// ---- The choice

TEST(Rebalancing, ThePeerWithTheShortestQueueOfTheLeastLoadedStageGoesToTheMostLoaded) {
  EXPECT_EQ(Scene().chosen(), (StageMove{PeerId(1), kFront, kBack}));
}

TEST(Rebalancing, EqualLoadsMoveNobody) {
  Scene scene;
  scene.loads = {{kFront, {{PeerId(0), 0}, {PeerId(1), 1}, {PeerId(2), 2}}},
                 {kMiddle, {{PeerId(3), 1}, {PeerId(4), 2}}},
                 {kBack, {{PeerId(5), 3}}}};
  EXPECT_FALSE(scene.chosen());
}

TEST(Rebalancing, SumAndMeanMayDiffer) {
  Scene scene;
  scene.loads = {{kFront, {{PeerId(0), 2}, {PeerId(1), 2}, {PeerId(2), 2}}},
                 {kMiddle, {{PeerId(3), 2.5}, {PeerId(4), 2.5}}},
                 {kBack, {{PeerId(5), 5.5}}}};
  EXPECT_EQ(scene.chosen(RebalanceLoad::sum), (StageMove{PeerId(3), kMiddle, kFront}));
  EXPECT_EQ(scene.chosen(RebalanceLoad::mean), (StageMove{PeerId(0), kFront, kBack}));
}

TEST(Rebalancing, AStageThatCanGiveNobodyIsPassedOver) {
  Scene scene;
  scene.loads[kBack] = {{PeerId(5), 0}};
  scene.loads[kMiddle] = {{PeerId(3), 4}, {PeerId(4), 4}};
  EXPECT_EQ(scene.chosen(), (StageMove{PeerId(1), kFront, kMiddle}));
}

TEST(Rebalancing, WhoStaysBehindServesAndStays) {
  Scene scene;
  scene.departs(0);
  scene.view.set_leaving(PeerId(2), kFront, true);
  EXPECT_TRUE(movable_peers(scene.view, scene.departures, kFront).empty());
  scene.view.learn(PeerId(6), kFront);
  EXPECT_TRUE(movable_peers(scene.view, scene.departures, kFront).empty()) << "it learns still";
  scene.view.serve(PeerId(6), kFront);
  EXPECT_EQ(movable_peers(scene.view, scene.departures, kFront),
            (std::vector<PeerId>{PeerId(1), PeerId(6)}));
}

TEST(Rebalancing, PeersWithSeveralStagesStay) {
  Scene scene;
  scene.view.serve(PeerId(1), kMiddle);
  scene.view.learn(PeerId(2), kBack);
  EXPECT_EQ(movable_peers(scene.view, scene.departures, kFront), (std::vector<PeerId>{PeerId(0)}));
}

TEST(Rebalancing, APeerOfWhichNothingIsKnownIsNotChosen) {
  Scene scene;
  scene.loads[kFront].erase(PeerId(1));
  EXPECT_EQ(scene.chosen()->peer, PeerId(2));
}

TEST(Rebalancing, APeerThatCouldNotLearnLatelyIsPassedOver) {
  Scene scene;
  scene.backing_off = {PeerId(1)};
  EXPECT_EQ(scene.chosen()->peer, PeerId(2));
  scene.backing_off = {PeerId(0), PeerId(1), PeerId(2)};
  EXPECT_EQ(scene.chosen(), (StageMove{PeerId(3), kMiddle, kBack}));
}

// ---- When it is made

struct DecisionScene : Scene {
  DecisionScene() { rebalancing.count_in(view.number, Step(4), 0); }
  void reports(StageId stage, double now_s) {
    for (const auto& [peer, load] : loads.at(stage)) {
      rebalancing.enter({view.number, stage, load * now_s}, peer, now_s);
    }
  }
  std::optional<StageMove> decide(double now_s) {
    rebalancing.pass(now_s, true);
    return rebalancing.decide(view, departures, learners, committed, now_s);
  }
  Step committed{5};
  Rebalancing rebalancing{plan, 0};
};

TEST(Rebalancing, ADecisionComesOnceAPeriod) {
  DecisionScene scene;
  scene.decide(0);
  for (const StageId stage : {kFront, kMiddle, kBack}) scene.reports(stage, 9);
  EXPECT_FALSE(scene.decide(9));
  EXPECT_EQ(scene.decide(10), (StageMove{PeerId(1), kFront, kBack}));
  for (const StageId stage : {kFront, kMiddle, kBack}) scene.reports(stage, 19);
  scene.committed = Step(6);
  EXPECT_FALSE(scene.decide(19));
  EXPECT_TRUE(scene.decide(20));
}

TEST(Rebalancing, ItWaitsUntilAllHaveReported) {
  DecisionScene scene;
  for (const StageId stage : {kFront, kBack}) scene.reports(stage, 9);
  EXPECT_FALSE(scene.decide(10));
  scene.rebalancing.enter({scene.view.number, kMiddle, 9.0}, PeerId(3), 10);
  EXPECT_FALSE(scene.decide(11)) << "of peer 4 nothing is known";
  scene.reports(kMiddle, 11);
  EXPECT_TRUE(scene.decide(12));
}

// When a step begins all its microbatches wait in the first stage.
TEST(Rebalancing, ItWaitsUntilAWholeStepWasDoneInTheView) {
  DecisionScene scene;
  scene.committed = Step(4);
  for (const StageId stage : {kFront, kMiddle, kBack}) scene.reports(stage, 9);
  EXPECT_FALSE(scene.decide(10));
  scene.committed = Step(5);
  EXPECT_TRUE(scene.decide(11));
}

TEST(Rebalancing, OneMoveAtATime) {
  DecisionScene scene;
  scene.view.begin_move({PeerId(4), kMiddle, kBack});
  scene.decide(0);
  for (const StageId stage : {kFront, kMiddle, kBack}) scene.reports(stage, 9);
  EXPECT_FALSE(scene.decide(10));
  EXPECT_FALSE(scene.decide(100)) << "many periods later, while it learns";
}

TEST(Rebalancing, APeerThatWasDroppedLatelyIsNotMoved) {
  DecisionScene scene;
  scene.view.learn(PeerId(1), kBack);
  scene.learners.drop(scene.view, PeerId(1), kBack, 9.5);
  for (const StageId stage : {kFront, kMiddle, kBack}) scene.reports(stage, 9);
  EXPECT_EQ(scene.decide(10)->peer, PeerId(2));
}

TEST(Rebalancing, TheLoadsOfTheLastDecisionAreRemembered) {
  DecisionScene scene;
  scene.plan.swarm.rebalance = Rebalance::none;
  scene.plan.swarm.newcomers = NewcomerPolicy::loaded;
  for (const StageId stage : {kFront, kMiddle, kBack}) scene.reports(stage, 10);
  EXPECT_TRUE(scene.rebalancing.stage_loads().empty());
  EXPECT_FALSE(scene.decide(10)) << "they serve newcomers only";
  scene.rebalancing.count_in({Term(1), 2}, Step(5), 10);
  EXPECT_DOUBLE_EQ(scene.rebalancing.stage_loads().at(kFront), 0.6);
  scene.rebalancing.leave_history();
  EXPECT_TRUE(scene.rebalancing.stage_loads().empty());
}

// ---- A move and its end

// Peer 1 moves from stage 0 to stage 2.
struct MoveScene : Scene {
  MoveScene() { view.begin_move({PeerId(1), kFront, kBack}); }
  Rebalancing::Progress advance() { return Rebalancing::advance(view, departures); }
};

TEST(Rebalancing, AMoverLearnsThenLeavesThenHasMoved) {
  MoveScene scene;
  EXPECT_FALSE(scene.advance().view_changed) << "it learns";
  scene.view.serve(PeerId(1), kBack);
  EXPECT_TRUE(scene.advance().view_changed);
  EXPECT_TRUE(scene.view.leaves(PeerId(1), kFront));
  EXPECT_FALSE(scene.advance().view_changed) << "it drains";
  scene.view.take_from(PeerId(1), kFront);
  EXPECT_EQ(scene.advance().ended, "it has moved");
  EXPECT_FALSE(scene.view.move());
}

TEST(Rebalancing, AMoveEndsWithItsMover) {
  MoveScene scene;
  scene.view.remove(PeerId(1));
  EXPECT_FALSE(scene.view.move());
}

TEST(Rebalancing, AMoverThatIsAskedToLeaveMovesNoMore) {
  MoveScene scene;
  scene.departs(1);
  EXPECT_EQ(scene.advance().ended, "it was asked to leave the run");
  EXPECT_FALSE(scene.view.learners().contains(PeerId(1)));
}

TEST(Rebalancing, AMoverStaysWhereItsFellowsAreLost) {
  MoveScene scene;
  scene.view.remove(PeerId(0));
  EXPECT_EQ(scene.advance().ended, "") << "peer 2 is there";
  scene.departs(2);
  EXPECT_EQ(scene.advance().ended, "it stays: the others of its stage are gone");
  EXPECT_FALSE(scene.view.learners().contains(PeerId(1)));
  EXPECT_TRUE(scene.view.serves(PeerId(1), kFront));
}

TEST(Rebalancing, WhereItHadLearnedItKeepsBoth) {
  MoveScene scene;
  scene.view.serve(PeerId(1), kBack);
  scene.advance();
  scene.view.remove(PeerId(0));
  scene.view.remove(PeerId(2));
  EXPECT_NE(scene.advance().ended, "");
  EXPECT_TRUE(scene.view.leaving().empty());
  EXPECT_TRUE(scene.view.serves(PeerId(1), kFront) && scene.view.serves(PeerId(1), kBack));
}

// Peer 1 has no room for both stages: it leaves stage 0, drops it, and learns stage 2 then.
struct TightMoveScene : Scene {
  TightMoveScene() {
    plan.needs = {0, {{4, 5}, {4, 5}, {4, 5}}};
    view.set_budget(PeerId(1), 8);
    EXPECT_FALSE(Rebalancing::begin(view, {PeerId(1), kFront, kBack}, plan.needs));
  }
  Rebalancing::Progress advance() { return Rebalancing::advance(view, departures, plan.needs); }
};

TEST(Rebalancing, AMoverWithoutRoomForBothLeavesThenDropsThenLearns) {
  TightMoveScene scene;
  EXPECT_TRUE(scene.view.leaves(PeerId(1), kFront));
  EXPECT_FALSE(scene.view.learns(PeerId(1), kBack));
  EXPECT_FALSE(scene.advance().view_changed) << "it drains";
  scene.view.take_from(PeerId(1), kFront);
  EXPECT_TRUE(scene.advance().view_changed);
  EXPECT_TRUE(scene.view.learns(PeerId(1), kBack));
  EXPECT_FALSE(scene.advance().view_changed) << "it learns";
  scene.view.serve(PeerId(1), kBack);
  EXPECT_EQ(scene.advance().ended, "it has moved");
}

TEST(Rebalancing, AMoverThatLeavesFirstStaysWhereItsFellowsAreLost) {
  TightMoveScene scene;
  scene.view.remove(PeerId(0));
  scene.view.remove(PeerId(2));
  EXPECT_EQ(scene.advance().ended, "it stays: the others of its stage are gone");
  EXPECT_TRUE(scene.view.leaving().empty());
  EXPECT_TRUE(scene.view.serves(PeerId(1), kFront));
}

TEST(Rebalancing, WithRoomForBothAMoverServesItsOldStageMeanwhile) {
  Scene scene;
  scene.plan.needs = {0, {{4, 5}, {4, 5}, {4, 5}}};
  scene.view.set_budget(PeerId(1), 9);
  EXPECT_TRUE(Rebalancing::begin(scene.view, {PeerId(1), kFront, kBack}, scene.plan.needs));
  EXPECT_TRUE(scene.view.learns(PeerId(1), kBack));
  EXPECT_TRUE(scene.view.leaving().empty());
}

TEST(Rebalancing, NobodyMovesToAStageForWhichItHasNoRoomAtAll) {
  DecisionScene scene;
  scene.plan.needs = {0, {{4, 5}, {4, 5}, {8, 9}}};
  scene.view.set_budget(PeerId(1), 8);
  for (const StageId stage : {kFront, kMiddle, kBack}) scene.reports(stage, 9);
  EXPECT_EQ(scene.decide(10)->peer, PeerId(2)) << "peer 1 would be the first";
}

TEST(Rebalancing, AMoverThatWasDroppedAsALearnerStays) {
  MoveScene scene;
  scene.learners.drop(scene.view, PeerId(1), kBack, 0);
  EXPECT_EQ(scene.advance().ended, "it stays: it could not learn the new stage");
}

}  // namespace
}  // namespace swarmpi::rebalancing_test
