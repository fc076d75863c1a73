#include "protocol/step/agreement.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/load_facts.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::agreement_test {
namespace {

using testing::tiny_plan;

// Peers 0 and 1 serve stage 0, peer 2 serves stage 1. Step 3 is agreed on.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
  }
  void commits(std::int64_t step, std::uint64_t hash_before = 0) {
    auto record = std::make_shared<CommitRecord>();
    record->step = Step(step);
    record->hash_before = hash_before;
    agreement.await(record, 0.5);
  }
  void reports(std::int32_t peer, std::int32_t stage, std::int64_t step, std::uint64_t hash) {
    agreement.enter(view, HashFact{Step(step), StageId(stage), {{hash}, {}}}, PeerId(peer));
  }
  // What is agreed on now, if anything. REQUIRES: nobody disagrees.
  std::optional<AgreedStep> decided() { return agreement.decide(view).value(); }

  RunPlan plan = tiny_plan(2, 9);
  View view;
  Agreement agreement{plan, Step(3)};
};

TEST(Agreement, AStepIsAgreedOnOnceAllReplicasHaveReportedTheSame) {
  Scene scene;
  EXPECT_FALSE(scene.decided()) << "nothing is committed";
  scene.commits(4);
  EXPECT_EQ(scene.agreement.awaited(), Step(4));
  scene.agreement.enter(UseFact{PeerRow{.step = 4, .peer = 2}});
  scene.reports(0, 0, 4, 10);
  scene.reports(2, 1, 4, 7);
  EXPECT_FALSE(scene.decided()) << "peer 1 has not reported";
  EXPECT_EQ(scene.agreement.agreed(), Step(3));
  scene.reports(1, 0, 4, 10);
  const auto agreed = scene.decided();
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->record->step, Step(4));
  EXPECT_EQ(agreed->state_hash, 17u) << "each stage counts once";
  EXPECT_EQ(agreed->seal_to_commit_s, 0.5);
  EXPECT_EQ(agreed->peer_rows.size(), 1u);
  EXPECT_EQ(scene.agreement.agreed(), Step(4));
  EXPECT_EQ(scene.agreement.hashes(), (StateHashes{{StageId(0), {10}}, {StageId(1), {7}}}));
  EXPECT_FALSE(scene.agreement.awaited());
  EXPECT_FALSE(scene.decided()) << "it is told once";
}

// Where each replica owns a range its moments are told by nobody else.
struct OwnersScene {
  explicit OwnersScene() {
    plan.swarm.method = Method::zero_offload;
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    auto record = std::make_shared<CommitRecord>();
    record->step = Step(4);
    agreement.await(record, 0);
  }
  void reports(std::int32_t peer, std::uint64_t own, std::uint64_t weights) {
    agreement.enter(view, HashFact{Step(4), StageId(0), {{own}, {weights}}}, PeerId(peer));
  }

  RunPlan plan = tiny_plan(1, 9);
  View view;
  Agreement agreement{plan, Step(3)};
};

TEST(Agreement, OfOwnersTheWeightsAreComparedAndWhatEachOwnsIsAddedUp) {
  OwnersScene scene;
  scene.reports(0, 10, 5);
  EXPECT_FALSE(scene.agreement.decide(scene.view).value()) << "half of the moments is not known";
  scene.reports(1, 32, 5);
  const auto agreed = scene.agreement.decide(scene.view).value();
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->state_hash, 42u);
  EXPECT_EQ(scene.agreement.hashes(), (StateHashes{{StageId(0), {42}}}));

  OwnersScene differs;
  differs.reports(0, 10, 5);
  differs.reports(1, 32, 6);
  EXPECT_EQ(differs.agreement.decide(differs.view).status().code(), ExitStatus::no);
}

TEST(Agreement, OfOwnersNobodyIsLeftOut) {
  OwnersScene scene;
  scene.reports(0, 10, 5);
  EXPECT_FALSE(scene.agreement.lacks_only(scene.view, {PeerId(1)}));
  EXPECT_EQ(scene.agreement.leave_out_the_late(scene.view), StageId(0));
  EXPECT_FALSE(scene.agreement.decide(scene.view).value());
}

TEST(Agreement, AReplicaWhoseStateDiffersIsNamedWithItsTensors) {
  Scene scene;
  scene.commits(4);
  scene.reports(0, 0, 4, 10);
  scene.reports(1, 0, 4, 11);
  scene.reports(2, 1, 4, 7);
  const auto verdict = scene.agreement.decide(scene.view);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.status().code(), ExitStatus::no);
  EXPECT_EQ(verdict.status().message(),
            "after step 4 the replicas of stage 0 disagree, peers 0 against 1, in tensor.0; check "
            "the memory of their hosts");
}

// Its state may have been wrong; nobody can ask it any more.
TEST(Agreement, WhoHangsIsLeftOutWhereAnotherHasToldTheStateOfItsStage) {
  Scene scene;
  scene.commits(4);
  scene.reports(1, 0, 4, 10);
  EXPECT_EQ(scene.agreement.leave_out_the_late(scene.view), StageId(1)) << "nobody has told it";
  EXPECT_FALSE(scene.decided());
  scene.reports(2, 1, 4, 7);
  EXPECT_FALSE(scene.agreement.leave_out_the_late(scene.view));
  const auto agreed = scene.decided();
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->state_hash, 17u);
  EXPECT_TRUE(scene.agreement.left_out(PeerId(0), StageId(0)));
  EXPECT_FALSE(scene.agreement.left_out(PeerId(1), StageId(0)));
}

TEST(Agreement, OnlyTheSilentAreLackingWhereAnotherHasToldTheStateOfTheirStages) {
  Scene scene;
  EXPECT_FALSE(scene.agreement.lacks_only(scene.view, {PeerId(0)})) << "nothing is awaited";
  scene.commits(4);
  scene.reports(2, 1, 4, 7);
  EXPECT_FALSE(scene.agreement.lacks_only(scene.view, {PeerId(0)})) << "peer 1 may tell it";
  EXPECT_FALSE(scene.agreement.lacks_only(scene.view, {PeerId(0), PeerId(1)})) << "nobody told it";
  scene.reports(1, 0, 4, 10);
  EXPECT_TRUE(scene.agreement.lacks_only(scene.view, {PeerId(0)}));
  EXPECT_FALSE(scene.agreement.lacks_only(scene.view, {PeerId(2)}));
}

TEST(Agreement, WhatAPeerReportedIsForgottenWithItsDeath) {
  Scene scene;
  scene.commits(4);
  scene.reports(0, 0, 4, 10);
  scene.reports(1, 0, 4, 11);
  scene.reports(2, 1, 4, 7);
  scene.view.remove(PeerId(1));
  scene.agreement.forget(PeerId(1), std::nullopt);
  EXPECT_TRUE(scene.decided());
}

// A dead leader has committed step 5: all had agreed on step 4, and it wrote the hash down.
TEST(Agreement, AStepThatAnotherWasCommittedAfterNeedsNoHashes) {
  Scene scene;
  scene.commits(4);
  scene.commits(5, 99);
  scene.reports(1, 0, 4, 10);
  scene.reports(1, 0, 4, 10);
  scene.agreement.forget(PeerId(1), StageId(0));
  const auto agreed = scene.decided();
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->record->step, Step(4));
  EXPECT_EQ(agreed->state_hash, 99u);
  EXPECT_TRUE(scene.agreement.hashes().empty());
  EXPECT_FALSE(scene.decided()) << "step 5 does";
}

TEST(Agreement, AMessageAboutStatesNamesAFewTensorsAndCountsTheRest) {
  RunPlan plan = tiny_plan(1, 1);
  plan.tensor_names = {"a", "b", "c", "d", "e", "f"};
  plan.stage_tensors = {{0, 1, 2, 3, 4, 5}};
  EXPECT_EQ(unequal_tensors(plan, StageId(0), {{1, 2, 3, 4, 5, 6}, {1, 0, 3, 4, 5, 0}}), " b f");
  EXPECT_EQ(unequal_tensors(plan, StageId(0), {{1, 2, 3, 4, 5, 6}, {0, 0, 0, 0, 0, 6}}),
            " a b c and 2 more");
}

}  // namespace
}  // namespace swarmpi::agreement_test
