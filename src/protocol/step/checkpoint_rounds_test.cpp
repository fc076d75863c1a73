#include "protocol/step/checkpoint_rounds.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::checkpoint_rounds_test {
namespace {

using testing::tiny_plan;

// Peers 0 and 1 serve stage 0, peer 2 serves stage 1. Step 4 is agreed on.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
    plan.checkpoint_every = 4;
    state.step = 4;
  }
  CheckpointRounds::Orders begin() { return rounds.begin(state, hashes, view, able, able, 10); }
  auto stored(std::int32_t peer, std::int32_t stage, std::uint64_t hash) {
    return rounds.stored({Step(4), StageId(stage), true, {"part", 0, 0}, {hash}, ""}, PeerId(peer));
  }
  RunPlan plan = tiny_plan(2, 9);
  CheckpointRounds::Able able = [](PeerId, StageId) { return true; };
  View view;
  ResumeState state;
  StateHashes hashes{{StageId(0), {10}}, {StageId(1), {7}}};
  CheckpointRounds rounds{plan};
};

TEST(CheckpointRounds, APeerThatLeavesAStageIsNotAskedForIt) {
  Scene scene;
  scene.view.set_leaving(PeerId(0), StageId(0), true);
  scene.view.set_leaving(PeerId(2), StageId(1), true);
  const auto orders = scene.begin();
  EXPECT_EQ(orders[0].first, PeerId(1));
  EXPECT_EQ(orders[1].first, PeerId(2)) << "nobody else is there";
}

// It has applied the next step, which others have not heard of: it would give the same answer
// again.
TEST(CheckpointRounds, WhoseStateIsOfAnotherStepIsNotAskedAgain) {
  Scene scene;
  EXPECT_EQ(scene.begin()[0].first, PeerId(0));
  (void)scene.rounds.stored({Step(4), StageId(0), false, {}, {}, ""}, PeerId(0));
  EXPECT_TRUE(scene.rounds.owed());
  EXPECT_EQ(scene.begin()[0].first, PeerId(1));
  (void)scene.rounds.stored({Step(4), StageId(0), false, {}, {}, ""}, PeerId(1));
  EXPECT_EQ(scene.rounds.lacks_writer(Step(4), scene.view, scene.able), StageId(0));
}

TEST(CheckpointRounds, TheManifestFollowsWhenAllPartsAreDurable) {
  Scene scene;
  const auto orders = scene.begin();
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0].first, PeerId(0));
  EXPECT_EQ(orders[1].first, PeerId(2));
  EXPECT_EQ(orders[1].second.stage, StageId(1));
  EXPECT_TRUE(scene.rounds.is_written(Step(4)));
  for (int time = 0; time < 2; ++time) {
    EXPECT_FALSE(scene.stored(2, 1, 7).value()) << "that of stage 0 is missing";
  }
  const auto manifest = scene.stored(0, 0, 10);
  ASSERT_TRUE(manifest.value());
  EXPECT_EQ(manifest.value()->state.step, 4);
  EXPECT_EQ(manifest.value()->files.size(), 2u);
  EXPECT_EQ(scene.rounds.awaited(), Step(4)) << "the manifest is not durable";
  EXPECT_EQ(scene.rounds.durable(Step(4), 12), 2.0);
  EXPECT_FALSE(scene.rounds.awaited());
  EXPECT_FALSE(scene.rounds.durable(Step(4), 12)) << "of a history that was left";
}

TEST(CheckpointRounds, WhereEachReplicaOwnsARangeAllWriteAndNobodyCanDoItForAnother) {
  Scene scene;
  scene.plan.swarm.method = Method::zero_offload;
  scene.hashes[StageId(0)] = {10};
  ASSERT_EQ(scene.begin().size(), 3u);
  EXPECT_FALSE(scene.stored(2, 1, 7).value());
  EXPECT_FALSE(scene.stored(1, 0, 6).value()) << "peer 0's is missing";
  EXPECT_TRUE(scene.rounds.awaits(PeerId(0), StageId(0)));
  EXPECT_FALSE(scene.rounds.awaits(PeerId(1), StageId(0)));
  const auto manifest = scene.stored(0, 0, 4);
  ASSERT_TRUE(manifest.ok()) << "what they have written adds up to what was agreed on";
  ASSERT_TRUE(manifest.value());
  EXPECT_EQ(manifest.value()->files.size(), 3u);

  scene.begin();
  (void)scene.stored(1, 0, 6);
  const auto wrong = scene.stored(0, 0, 5);
  EXPECT_EQ(wrong.status().code(), ExitStatus::no);
  EXPECT_NE(wrong.status().message().find("what peers 0,1 have written of stage 0"),
            std::string::npos)
      << wrong.status().message();

  scene.begin();
  const StageStoredMessage hangs{Step(4), StageId(0), false, {}, {}, "it hangs"};
  EXPECT_FALSE(scene.rounds.stored(hangs, PeerId(1)).value());
  EXPECT_EQ(scene.rounds.lacks_writer(Step(4), scene.view, scene.able), StageId(0));
}

TEST(CheckpointRounds, WhoDoesNotWriteItsPartIsNotAskedAgain) {
  Scene scene;
  scene.begin();
  EXPECT_FALSE(scene.stored(2, 1, 7).value());
  scene.rounds.leave_out_the_late(Step(4));
  EXPECT_FALSE(scene.rounds.is_written(Step(4)));
  EXPECT_FALSE(scene.rounds.lacks_writer(Step(4), scene.view, scene.able));
  EXPECT_EQ(scene.begin()[0].first, PeerId(1)) << "not peer 0";
  scene.rounds.leave_out_the_late(Step(4));
  EXPECT_EQ(scene.rounds.lacks_writer(Step(4), scene.view, scene.able), StageId(0));
}

// Where all hang on one server each would cost its whole patience.
TEST(CheckpointRounds, TwoReplicasAreTriedForAPartAndNoMore) {
  Scene scene;
  scene.view.serve(PeerId(3), StageId(0));
  for (const std::int32_t peer : {0, 1}) {
    EXPECT_FALSE(scene.rounds.lacks_writer(Step(4), scene.view, scene.able));
    EXPECT_EQ(scene.begin()[0].first, PeerId(peer));
    const StageStoredMessage hangs{Step(4), StageId(0), false, {}, {}, "it hangs"};
    EXPECT_FALSE(scene.rounds.stored(hangs, PeerId(peer)).value());
    EXPECT_TRUE(scene.rounds.left_out(PeerId(peer), Step(4)));
  }
  EXPECT_EQ(scene.rounds.lacks_writer(Step(4), scene.view, scene.able), StageId(0)) << "not peer 3";
  EXPECT_FALSE(scene.rounds.lacks_writer(Step(5), scene.view, scene.able)) << "it begins anew";
}

TEST(CheckpointRounds, WhoIsSilentIsPassedOverWhereAnotherMayWrite) {
  Scene scene;
  scene.begin();
  scene.rounds.pass_over(Step(4), {PeerId(2)}, scene.view, scene.able);
  EXPECT_TRUE(scene.rounds.is_written(Step(4))) << "nobody else can";
  scene.rounds.pass_over(Step(4), {PeerId(0)}, scene.view, scene.able);
  EXPECT_FALSE(scene.rounds.is_written(Step(4)));
  EXPECT_EQ(scene.begin()[0].first, PeerId(1));
  scene.rounds.pass_over(Step(4), {PeerId(0), PeerId(1)}, scene.view, scene.able);
  EXPECT_TRUE(scene.rounds.is_written(Step(4)));
}

TEST(CheckpointRounds, OfEarlierStepsOnlyManifestsAreWaitedFor) {
  Scene scene;
  scene.begin();
  EXPECT_FALSE(scene.stored(2, 1, 7).value());
  scene.rounds.forget_before(Step(4));
  EXPECT_TRUE(scene.rounds.awaited());
  scene.rounds.forget_before(Step(5));
  EXPECT_FALSE(scene.rounds.awaited());
  scene.begin();
  scene.stored(2, 1, 7).value();
  scene.stored(0, 0, 10).value();
  scene.rounds.forget_before(Step(5));
  EXPECT_TRUE(scene.rounds.awaited());
}

TEST(CheckpointRounds, AManifestThatIsAwaitedIsNotTakenFromItsWriters) {
  Scene scene;
  scene.begin();
  EXPECT_FALSE(scene.stored(2, 1, 7).value());
  ASSERT_TRUE(scene.stored(0, 0, 10).value());
  scene.rounds.leave_out_the_late(Step(4));
  EXPECT_TRUE(scene.rounds.is_written(Step(4)));
}

TEST(CheckpointRounds, APartThatIsNotTheAgreedStateIsAnError) {
  Scene scene;
  scene.begin();
  const auto verdict = scene.stored(2, 1, 8);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.status().message(),
            "checkpoint of step 4: what peer 2 has written of stage 1 differs from the state that "
            "all replicas agreed on, in tensor.1; check the memory and the disk of its host");
}

TEST(CheckpointRounds, OneIsOwedUntilItIsAskedForAndAgainIfItCannotBeMade) {
  Scene scene;
  scene.rounds.passed(Step(3));
  EXPECT_FALSE(scene.rounds.owed());
  scene.rounds.passed(Step(4));
  scene.rounds.passed(Step(5));
  EXPECT_TRUE(scene.rounds.owed());
  scene.begin();
  EXPECT_FALSE(scene.rounds.owed());
  const StageStoredMessage cannot{Step(4), StageId(1), false, {}, {}, ""};
  EXPECT_FALSE(scene.rounds.stored(cannot, PeerId(2)).value());
  EXPECT_TRUE(scene.rounds.owed());
  EXPECT_FALSE(scene.rounds.awaited());
}

// A replica that took its place had asked the next to write it, and it was the slower one.
TEST(CheckpointRounds, WhoCannotWriteAPartThatIsHereSpoilsNothing) {
  Scene scene;
  scene.begin();
  EXPECT_FALSE(scene.stored(0, 0, 10).value());
  const StageStoredMessage cannot{Step(4), StageId(0), false, {}, {}, ""};
  EXPECT_FALSE(scene.rounds.stored(cannot, PeerId(1)).value());
  EXPECT_TRUE(scene.stored(2, 1, 7).value());
}

TEST(CheckpointRounds, APartIsAskedOfAnotherReplicaWhereTheFirstHasDied) {
  Scene scene;
  scene.begin();
  EXPECT_TRUE(scene.rounds.repair(scene.view).empty());
  EXPECT_TRUE(scene.rounds.awaits(PeerId(0), StageId(0)));
  scene.view.remove(PeerId(0));
  const auto orders = scene.rounds.repair(scene.view);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders.front().first, PeerId(1));
  EXPECT_EQ(orders.front().second.stage, StageId(0));
  EXPECT_FALSE(scene.rounds.awaits(PeerId(0), StageId(0)));
  EXPECT_TRUE(scene.rounds.awaits(PeerId(1), StageId(0)));
  EXPECT_FALSE(scene.stored(1, 0, 10).value());
  EXPECT_FALSE(scene.rounds.awaits(PeerId(1), StageId(0)));
  scene.view.remove(PeerId(1));
  EXPECT_TRUE(scene.rounds.repair(scene.view).empty()) << "its part is durable";
}

TEST(CheckpointRounds, ALostPartIsWorthAnotherTryAndAHangIsNot) {
  Scene scene;
  for (const bool again : {true, false}) {
    scene.begin();
    scene.rounds.dropped(Step(4), 0, "it is not there");
    EXPECT_EQ(scene.rounds.worth_another_try(Step(4)), again);
  }
  scene.begin();
  scene.rounds.durable(Step(4), 12);
  EXPECT_FALSE(scene.rounds.why_dropped(Step(4))) << "it came after all";
  scene.begin();
  scene.rounds.give_up(Step(4), "storage hangs");
  EXPECT_FALSE(scene.rounds.worth_another_try(Step(4)));
}

TEST(CheckpointRounds, OneThatIsDroppedIsNotAwaitedAndNamesWhoHasWrittenThePart) {
  Scene scene;
  scene.begin();
  scene.view.remove(PeerId(0));
  scene.rounds.repair(scene.view);
  ASSERT_FALSE(scene.stored(2, 1, 7).value());
  ASSERT_TRUE(scene.stored(1, 0, 10).value());
  const auto lost = scene.rounds.dropped(Step(4), 0, "not there");
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->writer, PeerId(1));
  EXPECT_EQ(lost->stage, StageId(0));
  EXPECT_FALSE(scene.rounds.awaited());
  EXPECT_FALSE(scene.rounds.owed()) << "it would fail again";
  EXPECT_EQ(scene.rounds.why_dropped(Step(4)), "not there");
  EXPECT_FALSE(scene.rounds.why_dropped(Step(5)));
  EXPECT_FALSE(scene.rounds.dropped(Step(4), 0, "")) << "nobody awaits it any more";
}

}  // namespace
}  // namespace swarmpi::checkpoint_rounds_test
