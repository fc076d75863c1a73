#include "protocol/membership/learners.hpp"

#include <gtest/gtest.h>

#include "protocol/membership/hearing_test.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::learners_test {
namespace {

using Roles = std::vector<Learners::Role>;
using testing::tiny_plan;

// Peers 0 and 1 serve stage 0, peer 2 serves stage 1; peers 3 and 4 are spares. All agree on step
// 5, after which stage 0 has hash 50 and stage 1 hash 51.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
    for (const std::int32_t id : {3, 4}) view.add(PeerId(id));
  }
  bool assign(double now_s = 0) {
    return learners.assign(
        view, departures, [this] { return plan.stage_costs; }, progress, now_s);
  }
  void departs(std::int32_t peer) {
    departures.notice(PeerId(peer), "preempted", 0);
    departures.begin(view, 1, 1, testing::kAllAreHeard);
  }
  void says(std::int32_t peer, std::int32_t stage, std::int64_t step, std::uint64_t hash) {
    learners.enter({StageId(stage), Step(step), {hash}}, PeerId(peer));
  }
  Learners::Judged judged() { return learners.judge(view, departures, Step(5), hashes); }

  RunPlan plan = tiny_plan(2, 9);
  View view;
  Departures departures;
  Learners learners{plan, 3, PeerId(4)};
  Learners::Progress progress{Step(5), Step(5)};
  StateHashes hashes{{StageId(0), {50}}, {StageId(1), {51}}};
};

// ---- Beginning

TEST(Learners, NobodyLearnsWhereEnoughServe) {
  Scene scene;
  EXPECT_FALSE(scene.assign());
  EXPECT_TRUE(scene.view.learners().empty());
}

TEST(Learners, ASpareLearnsInThePlaceOfEachPeerThatDied) {
  Scene scene;
  scene.view.remove(PeerId(1));
  EXPECT_TRUE(scene.assign());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(0)));
  EXPECT_FALSE(scene.view.learners().contains(PeerId(4)));
  EXPECT_FALSE(scene.assign()) << "it is on its way";
}

// A step that is sealed already cannot name it: what it learned before the commit would be lost.
TEST(Learners, WhoComesWhileAStepIsReducedBeginsAfterItsCommit) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.progress.sealed = Step(6);
  EXPECT_FALSE(scene.assign());
  EXPECT_FALSE(scene.assign());
  // With delayed updates the next one may be sealed by then: nobody waits for that one, too.
  scene.progress = {Step(6), Step(7)};
  EXPECT_TRUE(scene.assign());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(0)));
  scene.view.remove(PeerId(3));
  EXPECT_FALSE(scene.assign()) << "but who comes now does";
}

TEST(Learners, WhatNobodyWaitsForAnyMoreIsForgotten) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.progress = {Step(5), Step(6)};
  EXPECT_FALSE(scene.assign());
  scene.view.serve(PeerId(4), StageId(0));
  EXPECT_FALSE(scene.assign()) << "enough serve";
  scene.view.remove(PeerId(4));
  scene.progress = {Step(100), Step(101)};
  EXPECT_FALSE(scene.assign());
  scene.learners.leave_history();
  scene.progress = {Step(50), Step(50)};
  EXPECT_TRUE(scene.assign()) << "all have gone back";
}

// Stage 0 counts peer 0 alone, and stage 1 peer 2 and the mover: whether that learns or leaves.
TEST(Learners, APeerThatMovesCountsWhereItGoes) {
  for (const bool leaves : {false, true}) {
    Scene scene;
    scene.view.begin_move({PeerId(1), StageId(0), StageId(1)});
    if (leaves) {
      scene.view.serve(PeerId(1), StageId(1));
      scene.view.set_leaving(PeerId(1), StageId(0), true);
    }
    scene.plan.stage_costs = {3, 4};
    scene.plan.swarm.shadows = 1;
    EXPECT_TRUE(scene.assign());
    EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(0))) << leaves;
  }
}

TEST(Learners, ASpareLearnsWhatItHasRoomFor) {
  Scene scene;
  scene.plan.needs = {0, {{8, 9}, {4, 5}}};
  scene.view.remove(PeerId(1));
  scene.view.set_budget(PeerId(3), 4);
  scene.view.set_budget(PeerId(4), 5);
  EXPECT_TRUE(scene.assign());
  EXPECT_FALSE(scene.view.learners().contains(PeerId(3))) << "it has room for none";
  EXPECT_TRUE(scene.view.learns(PeerId(4), StageId(1)))
      << "stage 0 needs it more, but is too large";
}

// It had to leave its old stage first: nobody else is to serve in its place meanwhile.
TEST(Learners, AMoverThatServesNothingMeanwhileIsPromotedAllTheSame) {
  Scene scene;
  scene.view.begin_move_by_leaving({PeerId(1), StageId(0), StageId(1)});
  scene.view.take_from(PeerId(1), StageId(0));
  scene.view.learn(PeerId(1), StageId(1));
  scene.view.learn(PeerId(3), StageId(0));
  scene.says(3, 0, 5, 50);
  EXPECT_TRUE(scene.judged().ready.empty()) << "a shadow";
  scene.says(1, 1, 5, 51);
  EXPECT_EQ(scene.judged().ready, (Roles{{PeerId(1), StageId(1)}}));
}

TEST(Learners, ASpareLearnsInThePlaceOfAPeerThatDeparts) {
  Scene scene;
  scene.departs(2);
  EXPECT_TRUE(scene.assign());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(1))) << "nobody stays in that stage";
}

TEST(Learners, ASpareThatDepartsItselfLearnsNothing) {
  Scene scene;
  scene.departs(3);
  scene.view.remove(PeerId(1));
  EXPECT_TRUE(scene.assign());
  EXPECT_TRUE(scene.view.learns(PeerId(4), StageId(0)));
}

// Each peer that joins is one more that is to serve.
TEST(Learners, NewcomersLearnTheStageWithTheHighestCostForEachOfItsPeers) {
  Scene scene;
  EXPECT_EQ(scene.learners.wanted_workers(scene.view), 3);
  scene.view.add(PeerId(5));
  EXPECT_EQ(scene.learners.wanted_workers(scene.view), 4);
  EXPECT_TRUE(scene.assign());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(1))) << "a spare is as good";
  scene.plan.stage_costs = {3, 1};
  scene.view.add(PeerId(6));
  EXPECT_TRUE(scene.assign());
  EXPECT_TRUE(scene.view.learns(PeerId(4), StageId(0)));
  EXPECT_TRUE(scene.learners.counts_hold(scene.view));
  scene.view.remove(PeerId(6));
  EXPECT_EQ(scene.learners.wanted_workers(scene.view), 4);
}

TEST(Learners, ShadowsLearnThoughNobodyIsMissing) {
  Scene scene;
  scene.plan.swarm.shadows = 1;
  EXPECT_TRUE(scene.assign());
  EXPECT_EQ(scene.view.learners().size(), 1u);
  EXPECT_FALSE(scene.assign());
}

TEST(Learners, ASpareStartsUpBeforeItLearns) {
  Scene scene;
  scene.plan.swarm.spare_delay_s = 10;
  scene.view.remove(PeerId(1));
  EXPECT_FALSE(scene.assign(100));
  EXPECT_FALSE(scene.assign(109));
  EXPECT_TRUE(scene.assign(110));
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(0)));
  EXPECT_FALSE(scene.learners.may_begin(scene.view, PeerId(4), 110)) << "nobody had asked for it";
  EXPECT_TRUE(scene.learners.may_begin(scene.view, PeerId(4), 120));
}

TEST(Learners, WhoServesOrHasJoinedNeedsNoStartUp) {
  Scene scene;
  scene.plan.swarm.spare_delay_s = 10;
  scene.view.add(PeerId(5));
  EXPECT_TRUE(scene.learners.may_begin(scene.view, PeerId(0), 0));
  EXPECT_TRUE(scene.learners.may_begin(scene.view, PeerId(5), 0));
  EXPECT_FALSE(scene.learners.may_begin(scene.view, PeerId(3), 0));
}

// ---- Progress, and the end of learning

TEST(Learners, WhoHoldsTheAgreedStateIsReady) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.assign();
  EXPECT_TRUE(scene.judged().ready.empty()) << "it has said nothing";
  scene.says(3, 0, 5, 50);
  scene.says(3, 0, 5, 50);
  EXPECT_EQ(scene.judged().ready, (Roles{{PeerId(3), StageId(0)}}));
  EXPECT_TRUE(scene.judged().wrong.empty());
  scene.learners.promote(scene.view, PeerId(3), StageId(0));
  EXPECT_TRUE(scene.view.serves(PeerId(3), StageId(0)));
  EXPECT_FALSE(scene.view.learns(PeerId(3), StageId(0)));
  EXPECT_TRUE(scene.judged().ready.empty());
}

TEST(Learners, WhoHoldsAnotherStateIsWrong) {
  Scene scene;
  scene.view.learn(PeerId(3), StageId(0));
  scene.says(3, 0, 5, 51);
  EXPECT_EQ(scene.judged().wrong, (Roles{{PeerId(3), StageId(0)}})) << "wanted or not";
  EXPECT_TRUE(scene.judged().ready.empty());
}

TEST(Learners, AStateOfAnotherStepSaysNothing) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.assign();
  for (const std::int64_t step : {4, 6}) {
    scene.says(3, 0, step, 7);
    EXPECT_TRUE(scene.judged().ready.empty() && scene.judged().wrong.empty());
  }
  scene.says(3, 0, 5, 50);
  EXPECT_EQ(scene.judged().ready.size(), 1u) << "what it said last counts";
}

// A new leader knows the hashes of a stage only once all have reported them again.
TEST(Learners, WhereNobodyKnowsTheAgreedStateNobodyIsJudged) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.assign();
  scene.says(3, 0, 5, 51);
  scene.hashes.erase(StageId(0));
  EXPECT_TRUE(scene.judged().ready.empty() && scene.judged().wrong.empty());
}

TEST(Learners, AShadowLearnsOnUntilSomebodyIsMissing) {
  Scene scene;
  scene.view.learn(PeerId(3), StageId(1));
  scene.says(3, 1, 5, 51);
  EXPECT_TRUE(scene.judged().ready.empty());
  scene.view.remove(PeerId(0));
  EXPECT_EQ(scene.judged().ready, (Roles{{PeerId(3), StageId(1)}}));
}

TEST(Learners, OfTwoShadowsOneServesInThePlaceOfOneDead) {
  Scene scene;
  for (const std::int32_t id : {3, 4}) {
    scene.view.learn(PeerId(id), StageId(0));
    scene.says(id, 0, 5, 50);
  }
  scene.view.remove(PeerId(1));
  EXPECT_EQ(scene.judged().ready, (Roles{{PeerId(3), StageId(0)}}));
}

TEST(Learners, AStageThatNobodyStaysInTakesAllWhoHaveLearnedIt) {
  Scene scene;
  scene.departs(2);
  for (const std::int32_t id : {3, 4}) {
    scene.view.learn(PeerId(id), StageId(1));
    scene.says(id, 1, 5, 51);
  }
  EXPECT_EQ(scene.judged().ready.size(), 2u);
}

TEST(Learners, APeerThatServesAStageAndLearnsAnotherIsWantedInBoth) {
  Scene scene;
  scene.view.learn(PeerId(0), StageId(1));
  scene.says(0, 1, 5, 51);
  EXPECT_EQ(scene.judged().ready, (Roles{{PeerId(0), StageId(1)}}));
}

// It has left the stage since, and learns it anew.
TEST(Learners, WhatAPeerDoesNotSayAgainInItsTableIsForgotten) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.assign();
  scene.says(3, 0, 5, 50);
  scene.learners.keep_listed(PeerId(4), {});
  scene.learners.keep_listed(PeerId(3), {{StageId(0), Step(5), {}}});
  EXPECT_EQ(scene.judged().ready.size(), 1u);
  scene.learners.keep_listed(PeerId(3), {{StageId(1), Step(5), {}}});
  EXPECT_TRUE(scene.judged().ready.empty());
}

TEST(Learners, OfAPeerThatIsGoneNothingIsKept) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.assign();
  scene.says(3, 0, 5, 50);
  scene.learners.drop(scene.view, PeerId(3), StageId(0), 10);
  scene.view.learn(PeerId(3), StageId(0));
  scene.says(3, 0, 5, 50);
  scene.learners.forget(PeerId(3));
  EXPECT_TRUE(scene.judged().ready.empty());
  EXPECT_FALSE(scene.learners.backs_off(PeerId(3), 10.1));
}

TEST(Learners, OfAHistoryThatIsLeftNothingIsLearned) {
  Scene scene;
  scene.view.remove(PeerId(1));
  scene.assign();
  scene.says(3, 0, 5, 50);
  scene.learners.leave_history();
  EXPECT_TRUE(scene.judged().ready.empty());
}

TEST(Learners, WhoIsDroppedMayBeginAgainAfterAPauseThatDoubles) {
  Scene scene;
  scene.plan.torture_only.learner_patience_s = 0.5;
  scene.view.remove(PeerId(1));
  scene.assign();
  scene.says(3, 0, 5, 51);
  EXPECT_EQ(scene.learners.drop(scene.view, PeerId(3), StageId(0), 10), 1);
  EXPECT_FALSE(scene.view.learns(PeerId(3), StageId(0)));
  EXPECT_TRUE(scene.learners.backs_off(PeerId(3), 10.9));
  EXPECT_FALSE(scene.learners.may_begin(scene.view, PeerId(3), 10.9));
  EXPECT_TRUE(scene.assign(10.9));
  EXPECT_TRUE(scene.view.learns(PeerId(4), StageId(0))) << "another learns meanwhile";
  EXPECT_FALSE(scene.learners.backs_off(PeerId(3), 11));
  scene.view.learn(PeerId(3), StageId(0));
  EXPECT_TRUE(scene.judged().wrong.empty()) << "what it said before is void";
  EXPECT_EQ(scene.learners.drop(scene.view, PeerId(3), StageId(0), 20), 2);
  for (int times = 2; times < 20; ++times) {
    scene.learners.drop(scene.view, PeerId(3), StageId(0), 20);
  }
  EXPECT_EQ(scene.learners.drop(scene.view, PeerId(3), StageId(0), 20), 512) << "at most";
}

}  // namespace
}  // namespace swarmpi::learners_test
