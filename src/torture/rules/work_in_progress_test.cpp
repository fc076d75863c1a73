#include "torture/rules/work_in_progress.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::work_in_progress_test {
namespace {

const PeerId kPeer(0), kOther(1);

MicrobatchId microbatch(std::int32_t index) { return {Step(3), Purpose::train, index}; }
BackwardJob backward(std::int32_t index, std::int32_t stage = 0) {
  BackwardJob job;
  job.work = {microbatch(index), StageId(stage)};
  return job;
}
BackwardResult result_of(const BackwardJob& job) {
  BackwardResult result;
  result.work = job.work;
  return result;
}

// Two stages, four microbatches in flight.
struct Scene {
  std::string does(PeerId peer, const BackwardJob& job) {
    std::string broken = work.starts(peer, job, true);
    work.finished(peer, result_of(job));
    return broken;
  }
  std::string issues(PeerId leader, std::int32_t index, std::int64_t incarnation = 0) {
    return work.issues(leader, Incarnation(incarnation), microbatch(index));
  }

  RunPlan plan = testing::tiny_plan(2, 9);
  WorkInProgress work{plan};
};

TEST(WorkInProgress, APeerDoesOneJobAtATime) {
  Scene scene;
  EXPECT_EQ(scene.work.starts(kPeer, backward(0), true), "");
  EXPECT_EQ(scene.work.starts(kPeer, backward(1), true), "one job at a time: another began");
  scene.work.finished(kPeer, result_of(backward(0)));
  EXPECT_EQ(scene.work.starts(kPeer, backward(2), true), "");
  EXPECT_EQ(scene.work.jobs(), 3);
}

TEST(WorkInProgress, OnlyThoseOfAStageDoItsJobs) {
  Scene scene;
  EXPECT_EQ(scene.work.starts(kPeer, DropJob{StageId(1)}, false),
            "only replicas and learners of a stage do its jobs: a job of stage 1");
}

TEST(WorkInProgress, NoPassIsRepeatedWithoutNeed) {
  Scene scene;
  EXPECT_EQ(scene.does(kPeer, backward(4, 1)), "");
  EXPECT_EQ(scene.does(kOther, backward(4, 1)),
            "no pass is repeated without need: microbatch 4 of step 3, stage 1");
}

TEST(WorkInProgress, WhatIsDoneInAHistoryThatAllOthersHaveLeftIsNotCounted) {
  Scene scene;
  scene.work.restarted(Step(2));
  EXPECT_EQ(scene.work.starts(kOther, backward(4, 1), true, true), "");
  EXPECT_EQ(scene.does(kPeer, backward(4, 1)), "") << "the first that counts";
}

TEST(WorkInProgress, TheWindowBoundsTheMicrobatchesInFlight) {
  Scene scene;
  for (std::int32_t i = 0; i < 4; ++i) EXPECT_EQ(scene.issues(kPeer, i), "");
  EXPECT_EQ(scene.issues(kPeer, 0), "") << "a repair";
  scene.does(kOther, backward(0, 1));
  EXPECT_EQ(scene.issues(kPeer, 4), "the window bounds the microbatches in flight: 5 are");
  scene.does(kPeer, backward(0));
  scene.does(kPeer, backward(1));
  EXPECT_EQ(scene.issues(kPeer, 5), "") << "two are through";
  EXPECT_EQ(scene.issues(kOther, 6), "") << "a window for each leader";
}

TEST(WorkInProgress, WhatADeadLeaderHasIssuedIsRepaired) {
  Scene scene;
  EXPECT_TRUE(scene.work.notes_issue(Incarnation(0), microbatch(0)));
  for (std::int32_t i = 0; i < 5; ++i) EXPECT_EQ(scene.issues(kOther, i), "");
}

TEST(WorkInProgress, AFallbackEmptiesTheWindow) {
  Scene scene;
  for (std::int32_t i = 0; i < 4; ++i) scene.issues(kPeer, i);
  scene.work.restarted(Step(2));
  EXPECT_EQ(scene.issues(kPeer, 0, 1), "") << "the same in another history";
}

TEST(WorkInProgress, ADeathUndoesOpenStepsOnly) {
  Scene scene;
  scene.does(kPeer, backward(0));
  scene.work.died(kPeer, true, Step(2));
  EXPECT_EQ(scene.does(kOther, backward(0)), "");
  ASSERT_EQ(scene.work.deaths().size(), 1u);
  EXPECT_EQ(scene.work.deaths()[0].repeated, 1);
  EXPECT_EQ(scene.work.too_much(), "");
  scene.plan.train.microbatches = 0;
  EXPECT_EQ(scene.work.too_much(),
            "after the death of peer 0 1 backward and 0 forward passes were repeated, of 0 and 0 "
            "in the open steps");
}

// The jobs of a peer hang: what it had got is computed again until it answers.
TEST(WorkInProgress, WhatIsPlannedAtADeadlineAfterADeathIsNotItsCost) {
  for (const bool hangs : {false, true}) {
    Scene scene;
    scene.plan.train.microbatches = 1;
    scene.work.died(kPeer, true, Step(2));
    const std::int64_t passes = 2 * scene.plan.delay() * scene.plan.stages() + 1;
    for (std::int64_t i = 0; i <= passes; ++i) {
      if (hangs && i == 1) scene.work.planned_at_a_deadline();
      scene.does(kOther, backward(0));
    }
    EXPECT_EQ(scene.work.too_much().empty(), hangs);
  }
}

}  // namespace
}  // namespace swarmpi::work_in_progress_test
