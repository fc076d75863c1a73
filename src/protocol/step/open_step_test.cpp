#include "protocol/step/open_step.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/seal.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::open_step_test {
namespace {

using testing::tiny_plan;

constexpr std::int32_t kMicrobatches = 5;
const Step kStep(2);

// Peers 0 and 1 serve stage 0, peer 2 stage 1; peer 3 learns stage 0.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
    view.add(PeerId(3));
    view.learn(PeerId(3), StageId(0));
  }
  static MicrobatchId microbatch(std::int32_t index) { return {kStep, Purpose::train, index}; }
  void contributes(std::int32_t peer, std::int32_t stage,
                   const std::vector<std::int32_t>& indices) {
    for (const std::int32_t index : indices) {
      open.enter({{microbatch(index), StageId(stage)}, {kernels::Contribution{}}}, PeerId(peer));
    }
  }
  void loses(const std::vector<std::int32_t>& indices) {
    for (const std::int32_t index : indices) open.enter(LossFact{microbatch(index), 32.0});
  }
  void completes() {
    contributes(0, 0, {0, 2, 4});
    contributes(1, 0, {1, 3});
    contributes(2, 1, {0, 1, 2, 3, 4});
    loses({0, 1, 2, 3, 4});
  }
  void reduces(std::int32_t peer, std::int32_t stage, double square, std::uint64_t hash = 1,
               std::int64_t attempt = 0, std::vector<std::uint64_t> chunk_hashes = {}) {
    open.enter({kStep, StageId(stage), attempt, {{square}, hash, std::move(chunk_hashes)}}, view,
               PeerId(peer));
  }
  RunPlan plan = tiny_plan(2, 4);
  View view;
  OpenStep open{plan, kStep};
  SealId next{Incarnation(1), Term(3), 1};
};

TEST(OpenStep, IssuesEachMicrobatchOnceInOrder) {
  Scene scene;
  for (std::int32_t index = 0; index < kMicrobatches; ++index) {
    const auto id = scene.open.next_to_issue(Purpose::train);
    ASSERT_EQ(id, Scene::microbatch(index));
    scene.open.set_issued(*id);
  }
  EXPECT_FALSE(scene.open.next_to_issue(Purpose::train));
  EXPECT_FALSE(scene.open.next_to_issue(Purpose::validate)) << "no validation rides on this step";
  EXPECT_EQ(scene.open.in_flight(), kMicrobatches);
  scene.completes();
  EXPECT_EQ(scene.open.in_flight(), 0);
  EXPECT_TRUE(scene.open.unfinished().empty());
}

TEST(OpenStep, WhatIsBackInTheFirstStageIsNotInFlightThoughOthersHaveNotReportedIt) {
  Scene scene;
  for (std::int32_t index = 0; index < 3; ++index) scene.open.set_issued(Scene::microbatch(index));
  scene.contributes(0, 0, {0, 2});
  EXPECT_EQ(scene.open.in_flight(), 1);
  scene.contributes(2, 1, {0, 2});
  scene.loses({0, 2});
  EXPECT_EQ(scene.open.in_flight(), 1);
}

TEST(OpenStep, IsSealedOnceAllMicrobatchesAreFinished) {
  Scene scene;
  scene.contributes(0, 0, {0, 1, 2, 3, 4});
  scene.contributes(2, 1, {0, 1, 2, 3, 4});
  scene.loses({0, 1, 2, 3});
  EXPECT_FALSE(scene.open.seal(scene.view, scene.next, 1));
  scene.loses({4});
  const auto seal = scene.open.seal(scene.view, scene.next, 2);
  ASSERT_TRUE(seal);
  ASSERT_EQ(seal->stages().size(), 2u);
  EXPECT_EQ(seal->stages()[0].replicas, (std::vector{PeerId(0), PeerId(1)}));
  EXPECT_EQ(seal->stages()[0].learners, (std::vector{PeerId(3)}));
  EXPECT_EQ(seal->stages()[1].seal.number, 2) << "each stage has a seal of its own";
  EXPECT_TRUE(scene.open.stands(StageId(1), seal->stages()[1].seal));
  EXPECT_EQ(scene.open.sealed_at_s(), 2);
  EXPECT_FALSE(scene.open.seal(scene.view, scene.next, 3)) << "it stands";
}

TEST(OpenStep, IsReducedOnceReplicasAndTheLearnersOfTheSealHoldTheGradient) {
  Scene scene;
  scene.completes();
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 0));
  scene.reduces(0, 0, 9);
  scene.reduces(1, 0, 9);
  scene.reduces(1, 0, 9);  // sent twice
  scene.reduces(2, 1, 16);
  EXPECT_FALSE(scene.open.reduced_by_all(scene.view)) << "the learner lacks it";
  EXPECT_TRUE(scene.open.counts_hold(scene.view));
  EXPECT_TRUE(scene.open.late_learners(scene.view, 1, 0.5).empty()) << "waited for from now on";
  EXPECT_TRUE(scene.open.late_learners(scene.view, 1.6, 0.5).empty()) << "the step has taken 1 s";
  const auto late = scene.open.late_learners(scene.view, 2, 0.5);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].peer, PeerId(3));
  EXPECT_EQ(late[0].waited_s, 1);
  scene.view.take_from(PeerId(3), StageId(0));
  EXPECT_TRUE(scene.open.reduced_by_all(scene.view)) << "it learns no more";
  EXPECT_EQ(scene.open.gradient_norm(), 5);
}

// Peer 1 dies; its microbatches are missing again, and the others add them to re-opened sums.
// It was dropped, and learns the stage anew: of this step it gets nothing.
TEST(OpenStep, ALearnerThatBeginsAnewIsNotWaitedForUnderTheSealFromBefore) {
  Scene scene;
  scene.completes();
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 1));
  for (const std::int32_t replica : {0, 1}) scene.reduces(replica, 0, 4);
  scene.reduces(2, 1, 9);
  EXPECT_FALSE(scene.open.reduced_by_all(scene.view));
  scene.open.forget(PeerId(3), StageId(0));
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(0)));
  EXPECT_TRUE(scene.open.reduced_by_all(scene.view));
}

TEST(OpenStep, ADeathVoidsTheSealAndReopensTheStage) {
  Scene scene;
  scene.completes();
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 0));
  for (std::int32_t i = 0; i < kMicrobatches; ++i) scene.open.set_issued(Scene::microbatch(i));
  scene.view.remove(PeerId(1));
  scene.open.forget(PeerId(1), std::nullopt);
  EXPECT_EQ(scene.open.void_broken_seals(scene.view, {}), (std::vector{StageId(0)}));
  EXPECT_EQ(scene.open.unfinished().size(), 2u);
  EXPECT_FALSE(scene.open.seal(scene.view, scene.next, 1));
  scene.contributes(0, 0, {1, 3});
  const auto again = scene.open.seal(scene.view, scene.next, 1);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->stages().size(), 1u) << "stage 1 stands";
  EXPECT_EQ(again->stages()[0].chunk_replicas, 2) << "the chunks stay as they were cut";
}

TEST(OpenStep, ReplicasThatHoldDifferentGradientsReduceOnceMore) {
  Scene scene;
  scene.completes();
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 0));
  scene.reduces(0, 0, 9, 7);
  EXPECT_FALSE(scene.open.disagreement());
  scene.reduces(1, 0, 9, 8);
  scene.reduces(3, 0, 9, 7);
  scene.reduces(2, 1, 16, 0);
  ASSERT_TRUE(scene.open.reduced_by_all(scene.view));
  const auto doubt = scene.open.disagreement();
  ASSERT_TRUE(doubt);
  EXPECT_EQ(doubt->stage, StageId(0));
  EXPECT_EQ(doubt->why, "the reduced gradients of peers 0 and 1 differ");

  ASSERT_TRUE(scene.open.reduce_again(StageId(0)));
  EXPECT_FALSE(scene.open.reduced_by_all(scene.view));
  const auto again = scene.open.seal(scene.view, scene.next, 1);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->stages().size(), 1u) << "stage 1 stands";
  EXPECT_EQ(again->stages()[0].attempt, 1);
  EXPECT_EQ(again->stages()[0].shares.size(), 2u) << "all sums are needed again";
  scene.reduces(0, 0, 9, 7);
  scene.reduces(1, 0, 9, 7);
  scene.reduces(3, 0, 9, 7);
  EXPECT_FALSE(scene.open.reduced_by_all(scene.view)) << "those were of the first attempt";

  scene.reduces(0, 0, 9, 7, 1, {1, 2, 3});
  scene.reduces(1, 0, 9, 8, 1, {1, 5, 3});
  scene.reduces(3, 0, 9, 7, 1, {1, 2, 3});
  ASSERT_TRUE(scene.open.disagreement());
  EXPECT_EQ(scene.open.disagreement()->why,
            "the reduced gradients of peers 0 and 1 differ in chunk 1");
  EXPECT_FALSE(scene.open.reduce_again(StageId(0))) << "once, no more";
}

// A new leader learns from one table that the stage was reduced again.
TEST(OpenStep, ChunksAndAnswersOfAnAttemptThatIsNotTrustedDoNotCount) {
  Scene scene;
  scene.completes();
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 0));
  scene.reduces(0, 0, 9);
  StageRow first{kStep, StageId(0), Bitmap(kMicrobatches), {}, 2, {0, 1}, 0};
  StageRow second{kStep, StageId(0), Bitmap(kMicrobatches), {}, 2, {1}, 1};
  Tables tables;
  tables[PeerId(0)].stages = {first};
  tables[PeerId(1)].stages = {second};
  EXPECT_TRUE(scene.open.void_broken_seals(scene.view, tables).empty());
  const auto again = scene.open.seal(scene.view, scene.next, 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stages()[0].attempt, 1);
  ASSERT_EQ(again->stages()[0].finished.size(), 1u);
  EXPECT_EQ(again->stages()[0].finished[0].from, PeerId(1));
}

// All chunks were finished before the death: nothing that the dead had is needed.
TEST(OpenStep, AStageWhoseChunksAreAllFinishedIsSettled) {
  Scene scene;
  scene.completes();
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 0));
  scene.view.remove(PeerId(1));
  scene.open.forget(PeerId(1), std::nullopt);
  Tables tables;
  tables[PeerId(0)].stages.push_back({kStep, StageId(0), Bitmap(5), {}, 2, {0}});
  EXPECT_TRUE(scene.open.void_broken_seals(scene.view, tables).empty());
  EXPECT_TRUE(scene.open.ledger().settled(StageId(0)));
  const auto again = scene.open.seal(scene.view, scene.next, 1);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->stages()[0].finished.size(), 1u);
  EXPECT_EQ(again->stages()[0].finished[0].from, PeerId(0));
  EXPECT_EQ(again->stages()[0].finished[0].to, (std::vector{PeerId(3)}));
}

// A new leader knows the step from tables alone.
TEST(OpenStep, IsRebuiltFromTables) {
  Scene before;
  before.completes();
  TableMessage table;
  table.facts.push_back({kStep, before.open.seal(before.view, before.next, 0)->facts()});
  table.works.push_back({{Scene::microbatch(3), StageId(0)}, Phase::over, {}, {}, {}, {}, {}, {}});
  table.losses.push_back({Scene::microbatch(4), 32.0});
  table.losses.push_back({{Step(7), Purpose::train, 0}, 32.0});  // of another step
  Scene scene;
  scene.open.enter_table(table, PeerId(0), 5);
  EXPECT_EQ(scene.open.issued_count(), 2);
  EXPECT_EQ(scene.open.sealed_at_s(), 5);
  EXPECT_EQ(scene.open.facts()->loss_nats, 160);
  EXPECT_EQ(scene.open.unfinished().size(), 2u) << "their contributions are nowhere";
}

TEST(CommitRecord, HoldsTheMeanLossTheClippedNormAndTheNextUpdate) {
  Scene scene;
  scene.completes();
  scene.open.seal(scene.view, scene.next, 0);
  for (const std::int32_t id : {0, 1, 3}) scene.reduces(id, 0, 9);
  scene.reduces(2, 1, 16);
  ResumeState before;
  before.applied_updates = 6;
  before.skips_in_a_row = 2;
  before.exponents = {Exponents(2)};
  const CommitRecord record = make_commit_record(scene.plan, scene.open, before, Term(3), 1.5);
  EXPECT_EQ(record.loss, 1.0) << "32 nats for each microbatch of 32 tokens";
  EXPECT_EQ(record.grad_norm, 5);
  EXPECT_FLOAT_EQ(record.clip, 0.2F) << "train.clip is 1";
  EXPECT_EQ(record.applied_updates, 7);
  EXPECT_EQ(record.skips_in_a_row, 0);
  EXPECT_EQ(record.term, Term(3));
  EXPECT_EQ(record.time_s, 1.5);
}

TEST(CommitRecord, OfAStepWithAFlagIsASkip) {
  Scene scene;
  scene.contributes(0, 0, {1, 2, 3, 4});
  scene.open.enter({{Scene::microbatch(0), StageId(0)}, {kernels::Contribution{0, true, false}}},
                   PeerId(0));
  scene.contributes(2, 1, {0, 1, 2, 3, 4});
  scene.loses({0, 1, 2, 3, 4});
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 0)->skipped());
  ResumeState before;
  before.applied_updates = 6;
  before.skips_in_a_row = 2;
  before.exponents = {Exponents(2)};
  const CommitRecord record = make_commit_record(scene.plan, scene.open, before, Term(3), 1.5);
  EXPECT_TRUE(record.skipped);
  EXPECT_EQ(record.applied_updates, 6);
  EXPECT_EQ(record.skips_in_a_row, 3);
}

// All replicas of stage 0 have made the collective of the view of the scene.
struct CollectiveScene : Scene {
  CollectiveScene() {
    view.number = {Term(3), 4};
    ballot.begin(view.number);
    for (const std::int32_t peer : {0, 1}) {
      ballot.enter({view.number, StageId(0), CollectiveNews::ready, {}, {}, ""}, PeerId(peer));
    }
    completes();
  }
  std::optional<ViewNumber> way_of_stage_0() {
    const auto seal = open.seal(view, next, 1, ballot);
    return seal ? seal->message_for(PeerId(1)).stages.at(0).collective : std::nullopt;
  }
  CollectiveBallot ballot;
};

TEST(OpenStep, IsSealedForACollectiveWhereAllReplicasHaveMadeOne) {
  CollectiveScene scene;
  const auto seal = scene.open.seal(scene.view, scene.next, 1, scene.ballot);
  ASSERT_TRUE(seal);
  EXPECT_EQ(seal->stages()[0].collective, scene.view.number);
  EXPECT_FALSE(seal->stages()[1].collective) << "its replica is alone";
  EXPECT_EQ(seal->message_for(PeerId(3)).stages.at(0).collective, scene.view.number)
      << "a learner hears of it, though it gets its chunks as ever";
}

TEST(OpenStep, WhatFollowsACollectiveThatCameToNothingGoesPointToPoint) {
  CollectiveScene scene;
  ASSERT_TRUE(scene.way_of_stage_0());
  ASSERT_TRUE(scene.open.reduce_again(StageId(0)));
  EXPECT_FALSE(scene.way_of_stage_0());
  ASSERT_TRUE(scene.open.seal(scene.view, scene.next, 1, scene.ballot) == std::nullopt);
}

TEST(OpenStep, AnotherViewVoidsWhatIsSealedForACollective) {
  CollectiveScene scene;
  ASSERT_TRUE(scene.way_of_stage_0());
  const SealId first{Incarnation(1), Term(3), 1};
  ASSERT_TRUE(scene.open.stands(StageId(0), first));
  EXPECT_TRUE(scene.open.void_broken_seals(scene.view, {}).empty()) << "all sums are there";
  EXPECT_FALSE(scene.open.stands(StageId(0), first));
  EXPECT_TRUE(scene.open.stands(StageId(1), {Incarnation(1), Term(3), 2}));
  EXPECT_FALSE(scene.way_of_stage_0()) << "though all should be ready again";
}

TEST(OpenStep, ACollectiveThatCameToNothingSaysNothingOfTheSums) {
  CollectiveScene scene;
  scene.plan.swarm.collectives = Collectives::nccl;
  ASSERT_TRUE(scene.way_of_stage_0());
  EXPECT_TRUE(scene.open.reduce_again(StageId(0)));
  EXPECT_TRUE(scene.open.reduce_again(StageId(0))) << "damaged on its way";
  EXPECT_FALSE(scene.open.reduce_again(StageId(0)));
}

}  // namespace
}  // namespace swarmpi::open_step_test
