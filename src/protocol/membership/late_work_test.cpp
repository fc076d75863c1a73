#include "protocol/membership/late_work.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/stalls.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::late_work_test {
namespace {

// Peers 0 and 1 serve stage 0, peer 2 serves stage 1 alone. The patience is 1 s.
struct Scene {
  Scene() {
    plan.recovers = true;
    plan.swarm.suspect_after_s = 1;
    plan.job_timeout_s = 100;
    plan.storage_timeout_s = 50;
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
  }
  void is_late(std::int32_t peer, double now_s, bool late = true, Task task = Task::job) {
    work.enter({task, late, "a pass", 10}, PeerId(peer), now_s);
  }
  LateWork::Decision decide(double now_s) { return work.decide(view, committed, now_s); }
  // As the leader hears of it: all are asked for their tables, and tell again what hangs.
  void dies(std::int32_t peer) {
    work.lost(PeerId(peer));
    view.remove(PeerId(peer));
    work.new_view();
  }
  // The first peer that is asked to try, and the number of its trial.
  std::int64_t asked(double now_s, std::int32_t whom) {
    const auto decision = decide(now_s);
    EXPECT_FALSE(decision.resigns);
    EXPECT_EQ(decision.tries.size(), 1u);
    if (decision.tries.empty()) return -1;
    EXPECT_EQ(decision.tries.front().first, PeerId(whom));
    return decision.tries.front().second.number;
  }
  void tried(std::int64_t number, std::int32_t by, double now_s) {
    work.enter(TriedMessage{number}, PeerId(by), now_s);
  }

  // The peer's job is late, and all others that are asked can do it.
  void is_told_to_go(std::int32_t peer, double now_s) {
    is_late(peer, now_s);
    for (const auto& [other, message] : decide(now_s).tries) {
      tried(message.number, other.value, now_s);
    }
    ASSERT_TRUE(decide(now_s).resigns);
  }

  RunPlan plan = testing::tiny_plan(2, 9);
  View view;
  Step committed{4};
  LateWork work{plan};
};

TEST(LateWork, WhatHangsIsNewsOnce) {
  Scene scene;
  const LateMessage message{Task::storage, true, "syncing a", 3};
  EXPECT_TRUE(scene.work.enter(message, PeerId(1), 10));
  EXPECT_FALSE(scene.work.enter(message, PeerId(1), 11));
  EXPECT_TRUE(scene.work.hangs(PeerId(1), Task::storage));
  EXPECT_EQ(scene.work.what_hangs(PeerId(1), 12), "peer 1: syncing a (4 s)");
  EXPECT_FALSE(scene.work.enter({Task::storage, false, "", 0}, PeerId(1), 13));
  EXPECT_FALSE(scene.work.hangs(PeerId(1), Task::storage));
}

TEST(LateWork, APeerIsGivenUpOnceAnotherHasShownThatItCan) {
  Scene scene;
  scene.is_late(0, 20);
  const std::int64_t number = scene.asked(20, 1);
  EXPECT_FALSE(scene.decide(20.5).resigns);
  scene.tried(number, 1, 20.6);
  const auto decision = scene.decide(20.7);
  ASSERT_TRUE(decision.resigns);
  EXPECT_EQ(decision.resigns->first, PeerId(0));
}

TEST(LateWork, AnAnswerThatComesLateShowsNothing) {
  Scene scene;
  scene.is_late(0, 20);
  scene.tried(scene.asked(20, 1), 1, 21.5);
  EXPECT_FALSE(scene.decide(21.6).resigns);
}

TEST(LateWork, NobodyGoesWhereTheOthersHangAsWell) {
  Scene scene;
  scene.is_late(0, 20);
  const std::int64_t first = scene.asked(20, 1);
  const std::int64_t second = scene.asked(21.1, 1);
  scene.tried(first, 1, 21.2);
  EXPECT_FALSE(scene.decide(21.3).resigns) << "it answers late: it had hung, too";
  scene.tried(second, 1, 21.4);
  EXPECT_FALSE(scene.decide(21.5).resigns) << "the server that comes back is not there for all yet";
  scene.is_late(0, 22, false);
  EXPECT_FALSE(scene.decide(40).resigns);
}

TEST(LateWork, NobodyGoesWhereAllWereLateAtOnceAndOneComesBackFirst) {
  Scene scene;
  for (const std::int32_t peer : {0, 1}) scene.is_late(peer, 20);
  for (double now_s = 20; now_s < 50; now_s += 0.5) EXPECT_TRUE(scene.decide(now_s).tries.empty());
  scene.is_late(0, 50, false);
  scene.tried(scene.asked(50, 0), 0, 50.001);
  EXPECT_FALSE(scene.decide(50.002).resigns) << "the server is not there for peer 1 yet";
  scene.is_late(1, 50.01, false);
  EXPECT_FALSE(scene.decide(70).resigns);
}

TEST(LateWork, WhoHangsOnAfterAllOthersWorkAgainIsGivenUp) {
  Scene scene;
  scene.is_late(0, 20);
  scene.asked(20, 1);
  double now_s = 21.1;
  for (; now_s < 32; now_s += 1.1) {
    scene.tried(scene.asked(now_s, 1), 1, now_s + 0.1);
    if (scene.decide(now_s + 0.2).resigns) break;
  }
  EXPECT_GT(now_s, 31);
  EXPECT_LT(now_s, 33);
}

TEST(LateWork, TheNextOneGoesAfterAStepOrLongAfter) {
  Scene scene;
  scene.view.serve(PeerId(3), StageId(0));
  scene.is_told_to_go(0, 20);
  scene.is_late(1, 20.1);
  EXPECT_TRUE(scene.decide(20.2).tries.empty()) << "the first is still there";
  scene.dies(0);
  scene.is_late(1, 20.25);
  EXPECT_TRUE(scene.decide(20.3).tries.empty()) << "no step was committed";
  scene.committed = Step(5);
  EXPECT_FALSE(scene.decide(20.4).tries.empty());
}

TEST(LateWork, LongAfterOneHasGoneTheNextGoesThoughNoStepWasCommitted) {
  Scene scene;
  scene.view.serve(PeerId(3), StageId(0));
  scene.is_told_to_go(0, 20);
  scene.dies(0);
  scene.is_late(1, 20.25);
  EXPECT_TRUE(scene.decide(30).tries.empty());
  EXPECT_FALSE(scene.decide(30.1).tries.empty());
}

TEST(LateWork, AStepThatWasCommittedBeforeTheFirstHadGoneShowsNothing) {
  Scene scene;
  scene.view.serve(PeerId(3), StageId(0));
  scene.is_told_to_go(0, 20);
  scene.committed = Step(5);
  scene.dies(0);
  scene.is_late(1, 20.25);
  EXPECT_TRUE(scene.decide(20.3).tries.empty());
  scene.committed = Step(6);
  EXPECT_FALSE(scene.decide(20.4).tries.empty());
}

// Its answer to the view shows that it had heard of it before.
TEST(LateWork, WhoIsStillThereAfterTheNextViewHadAReasonToStay) {
  Scene scene;
  scene.is_late(0, 20);
  scene.tried(scene.asked(20, 1), 1, 20);
  ASSERT_TRUE(scene.decide(20).resigns);
  scene.work.new_view();
  scene.is_late(0, 21);
  EXPECT_FALSE(scene.decide(21).tries.empty());
}

// Its job had ended before it was to go, and in a new view it need not say so.
TEST(LateWork, WhoWorksAgainDoesNotKeepOthersFromBeingGivenUp) {
  Scene scene;
  scene.view.serve(PeerId(3), StageId(0));
  scene.is_told_to_go(0, 20);
  scene.is_late(1, 21);
  EXPECT_TRUE(scene.decide(29).tries.empty()) << "the first may be about to go";
  EXPECT_FALSE(scene.decide(31).tries.empty());
}

TEST(LateWork, WhereNobodyElseServesTheStageTheRunEnds) {
  Scene scene;
  scene.is_late(2, 20);  // runs since 10 s
  EXPECT_FALSE(scene.decide(100).end);
  const auto decision = scene.decide(113);
  ASSERT_TRUE(decision.end);
  EXPECT_EQ(decision.end->code(), ExitStatus::stopped);
  EXPECT_EQ(decision.end->message(),
            "peer 2 hangs in a pass for 103 s, and no other peer can do it");
}

// Jobs of which the first kind is told only after job_timeout_s, of two stages at once.
TEST(LateWork, WhoeverCouldHelpHasJobTimeoutToShowIt) {
  Scene scene;
  for (const std::int32_t peer : {1, 2}) {
    scene.work.enter({Task::job, true, "a pass", 100}, PeerId(peer), 120);
  }
  scene.view.serve(PeerId(3), StageId(1));
  const std::int64_t number = scene.asked(120, 0);
  scene.tried(number, 0, 120.1);
  ASSERT_TRUE(scene.decide(120.2).resigns);
  scene.work.lost(PeerId(1));
  scene.view.remove(PeerId(1));
  const auto decision = scene.decide(131);  // no step was committed since
  EXPECT_FALSE(decision.end) << "peer 3 is asked only now";
  ASSERT_EQ(decision.tries.size(), 1u);
  EXPECT_FALSE(scene.decide(232).end);
  EXPECT_TRUE(scene.decide(234).end) << "it has not answered";
}

// By another leader, which has died since, or just now; a step may have been committed since.
TEST(LateWork, AfterOneThatGaveItselfUpANewLeaderWaitsAsWell) {
  Scene scene;
  scene.work.gave_itself_up(PeerId(4), 19);
  scene.is_late(0, 20);
  EXPECT_TRUE(scene.decide(20).tries.empty());
  scene.committed = Step(5);
  EXPECT_FALSE(scene.decide(20.1).tries.empty());
}

TEST(LateWork, WhoCannotLoadIsGivenUpOnceAnotherReplicaHasLoaded) {
  Scene scene;
  scene.is_late(0, 60, true, Task::load);
  EXPECT_TRUE(scene.work.work_hangs(scene.view));
  scene.tried(scene.asked(60, 1), 1, 60.1);
  const auto decision = scene.decide(60.2);
  ASSERT_TRUE(decision.resigns);
  EXPECT_EQ(decision.resigns->first, PeerId(0));
}

TEST(LateWork, WhereAllReplicasHangAsTheyLoadNobodyGoesAndTheRunEnds) {
  Scene scene;
  for (const std::int32_t peer : {0, 1}) scene.is_late(peer, 60, true, Task::load);
  EXPECT_TRUE(scene.decide(60).tries.empty());
  EXPECT_FALSE(scene.decide(149).end);
  EXPECT_TRUE(scene.decide(151).end) << "twice storage_timeout_s since it hangs";
}

TEST(LateWork, ALearnerThatHangsEndsNothing) {
  Scene scene;
  scene.view.add(PeerId(5));
  scene.is_late(5, 20);
  EXPECT_FALSE(scene.decide(1000).end);
}

TEST(LateWork, ALeaderWhoseDiskHangsAsksAllOthers) {
  Scene scene;
  scene.view.abstain(PeerId(1));
  const auto tries = scene.work.try_others(scene.view, PeerId(0), 10);
  ASSERT_EQ(tries.size(), 1u) << "not who has handed over before";
  EXPECT_EQ(tries.front().first, PeerId(2));
  EXPECT_TRUE(scene.work.try_others(scene.view, PeerId(0), 11).empty());
  scene.tried(tries.front().second.number, 2, 11);
  EXPECT_FALSE(scene.work.who_can_store(scene.view, 11.9));
  EXPECT_EQ(scene.work.who_can_store(scene.view, 12), PeerId(2));
  View without = scene.view;
  without.remove(PeerId(2));
  EXPECT_FALSE(scene.work.who_can_store(without, 12)) << "it has left meanwhile";
  EXPECT_EQ(scene.work.storage_hangs_s(12), 2);
  scene.work.storage_goes_on();
  EXPECT_FALSE(scene.work.who_can_store(scene.view, 20));
}

TEST(LateWork, OfThoseWhoCanStoreTheFirstThatIsToLeadIsChosen) {
  Scene scene;
  scene.view.abstain(PeerId(1));
  scene.view.come_back(PeerId(1), 1);
  const auto tries = scene.work.try_others(scene.view, PeerId(0), 10);
  ASSERT_EQ(tries.size(), 2u);
  for (const std::int32_t peer : {1, 2}) scene.tried(tries.front().second.number, peer, 11);
  EXPECT_EQ(scene.work.who_can_store(scene.view, 12), PeerId(2));
}

}  // namespace
}  // namespace swarmpi::late_work_test
