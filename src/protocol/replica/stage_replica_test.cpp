#include "protocol/replica/stage_replica.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/reduction.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::stage_replica_test {
namespace {

using testing::tiny_plan;

const StageId kStage(0);
const Step kStep(1);

MicrobatchId microbatch(std::int32_t index) { return {kStep, Purpose::train, index}; }

// Peer 0 and peer 1 serve the only stage; this is peer 0's.
struct Scene {
  void adds(const std::vector<std::int32_t>& indices) {
    for (const std::int32_t index : indices) {
      replica.add({{microbatch(index), kStage}, nullptr, 0, {kernels::Contribution{}}});
    }
  }
  // Peer 0's share as given, the rest is peer 1's.
  static SealMessage sealed(const std::vector<std::int32_t>& own, std::int64_t number = 1) {
    StageSeal seal;
    seal.stage = kStage;
    seal.seal = {{}, Term(1), number};
    seal.replicas = {PeerId(0), PeerId(1)};
    seal.microbatches = Bitmap(5);
    for (const std::int32_t index : own) seal.microbatches.insert(index);
    seal.chunk_replicas = 2;
    return {kStep, {seal}, false, std::make_shared<const StepFacts>()};
  }
  std::optional<ReducedMessage> freezes(const SealMessage& message) {
    const auto answer = replica.freeze(message, message.stages[0], exponents, outbox);
    if (!answer) return std::nullopt;
    return get<ReducedMessage>(*answer);
  }
  RunPlan plan = tiny_plan(1, 4);
  Outbox outbox;
  std::shared_ptr<const Exponents> exponents = std::make_shared<const Exponents>(1);
  StageReplica replica{plan, PeerId(0), kStage, Step(0)};
};

TEST(StageReplica, AFrozenAccumulatorTakesNothingMoreUntilItIsReopened) {
  Scene scene;
  scene.adds({0, 2});
  EXPECT_TRUE(scene.replica.takes(microbatch(1)));
  const SealMessage seal = Scene::sealed({0, 2});
  EXPECT_FALSE(scene.replica.refusal(seal, seal.stages[0], false));
  EXPECT_FALSE(scene.freezes(seal)) << "peer 1's share is not here";
  EXPECT_TRUE(scene.replica.knows(seal.stages[0].seal));
  EXPECT_TRUE(scene.replica.reducing());
  EXPECT_FALSE(scene.replica.takes(microbatch(1)));
  EXPECT_TRUE(scene.replica.takes(microbatch(0))) << "the sums have it, only its gradient is made";
  EXPECT_FALSE(scene.replica.adds(microbatch(0)));
  EXPECT_FALSE(scene.replica.reopen(kStep));
  EXPECT_FALSE(scene.replica.reducing());
  EXPECT_TRUE(scene.replica.takes(microbatch(1)));
}

TEST(StageReplica, RefusesASealThatSaysSomethingElse) {
  Scene scene;
  scene.adds({0, 2});
  const SealMessage seal = Scene::sealed({0, 3});
  const auto refused = scene.replica.refusal(seal, seal.stages[0], false);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->carried.text(), "0,2");
  EXPECT_FALSE(scene.replica.refusal(seal, seal.stages[0], true)) << "a learner has no share";
}

// The leader leaves out the share of a replica that has contributed nothing.
TEST(StageReplica, WithoutAShareItsSumsHaveToBeEmpty) {
  Scene scene;
  SealMessage seal = Scene::sealed({});
  seal.stages[0].microbatches = Bitmap();
  EXPECT_FALSE(scene.replica.refusal(seal, seal.stages[0], false));
  scene.adds({1});
  EXPECT_TRUE(scene.replica.refusal(seal, seal.stages[0], false));
}

// A microbatch whose pass ended after the seal is added if the stage is opened again.
TEST(StageReplica, RemembersAMicrobatchThatWasNotAddedToSettledSums) {
  Scene scene;
  const MicrobatchId id = microbatch(1);
  EXPECT_TRUE(scene.replica.lacks(id)) << "the leader is to know at once";
  SealMessage skipped = Scene::sealed({});
  skipped.skipped = true;
  const auto reduced = scene.freezes(skipped);
  ASSERT_TRUE(reduced);
  EXPECT_TRUE(reduced->gradient.squares.empty());
  EXPECT_FALSE(scene.replica.lacks(id));
  EXPECT_EQ(scene.replica.reopen(kStep), id);
  EXPECT_FALSE(scene.replica.reopen(kStep));
}

// What came of the first attempt is not trusted: not even what is in place counts.
TEST(StageReplica, ReducesAllChunksAgainAtANewAttempt) {
  Scene scene;
  scene.adds({0, 1, 2, 3, 4});
  SealMessage seal = Scene::sealed({0, 1, 2, 3, 4});
  seal.stages[0].replicas = {PeerId(0)};
  seal.stages[0].chunk_replicas = 1;
  const auto reduces = [&]() -> std::optional<ReductionAnswer> {
    std::optional<ReductionAnswer> answer;
    while (const auto job = scene.replica.next_reduction_job()) {
      const auto& reduce = get<ReduceJob>(*job);
      const std::vector<double> squares(
          static_cast<std::size_t>(reduce.blocks.end - reduce.blocks.first), 4.0);
      answer = scene.replica.finished(ReduceResult{reduce.seal, kStage, reduce.chunk,
                                                   Cover::of_step(kStep, 5), squares, nullptr, 0},
                                      scene.outbox);
    }
    return answer;
  };
  ASSERT_FALSE(scene.freezes(seal));
  ASSERT_TRUE(reduces());
  seal.stages[0].seal.number = 2;
  EXPECT_TRUE(scene.freezes(seal)) << "all is in place";
  seal.stages[0].seal.number = 3;
  seal.stages[0].attempt = 1;
  EXPECT_FALSE(scene.freezes(seal));
  const auto answer = reduces();
  ASSERT_TRUE(answer);
  EXPECT_EQ(get<ReducedMessage>(*answer).attempt, 1);
}

TEST(StageReplica, AnUpdateWaitsForTheStateAndForgetsTheSums) {
  Scene scene;
  CommitRecord record;
  record.step = kStep;
  const CommitRef commit = std::make_shared<const CommitRecord>(record);
  scene.replica.load();
  EXPECT_FALSE(scene.replica.weights_ready(kStep));
  EXPECT_FALSE(scene.replica.update(commit));
  scene.replica.loaded();
  scene.adds({0});
  ASSERT_TRUE(scene.replica.update(commit));
  scene.replica.updated({kStep, kStage, {{1}, {}}, {}, {}});
  EXPECT_EQ(scene.replica.applied(), kStep);
  EXPECT_FALSE(scene.replica.contributed(microbatch(0)));
  EXPECT_FALSE(scene.replica.has_left_over());
}

TEST(StageReplica, ALearnerUpdatesWhatIsHere) {
  Scene scene;
  scene.replica.learn(Step(0));
  CommitRecord record;
  record.step = kStep;
  record.skipped = true;
  const CommitRef commit = std::make_shared<const CommitRecord>(record);
  EXPECT_FALSE(scene.replica.update(commit)) << "no memory yet";
  scene.replica.learning()->allocated();
  const auto update = scene.replica.update(commit);
  ASSERT_TRUE(update && get<ApplyJob>(*update).partial);
  EXPECT_TRUE(get<ApplyJob>(*update).partial->here.empty());
  scene.replica.updated({kStep, kStage, {{0}, {}}, {}, {}});
  EXPECT_FALSE(scene.replica.update(commit)) << "it is applied";
  scene.replica.serve_learned();
  EXPECT_EQ(scene.replica.learning(), nullptr);
  record.step = kStep.next();
  const auto next = scene.replica.update(std::make_shared<const CommitRecord>(record));
  EXPECT_FALSE(get<ApplyJob>(next.value()).partial);
}

// So that it may serve at once if the last replica has died.
TEST(StageReplica, ATableTellsTheHashesOfAStageThatIsLearned) {
  Scene scene;
  scene.replica.learn(Step(0));
  scene.replica.learning()->allocated();
  TableMessage early;
  scene.replica.fill(early, Step(0));
  EXPECT_TRUE(early.learned.empty()) << "a tensor is missing";
  Learning& learning = *scene.replica.learning();
  learning.ask(PeerId(0), {PeerId(1)}, 0);
  learning.receive({kStage, {0, 1}, Step(0), 5, nullptr}, PeerId(1), 0);
  learning.written({kStage, {0, 1}, true, {0}, {77}});
  TableMessage table;
  scene.replica.fill(table, Step(0));
  ASSERT_EQ(table.learned.size(), 1u);
  EXPECT_EQ(table.learned[0].step, Step(0));
  EXPECT_EQ(table.learned[0].tensors, std::vector<std::uint64_t>{77});
}

TEST(StageReplica, SaysWhatItDidInAStep) {
  Scene scene;
  scene.replica.use().microbatches = 3;
  for (const std::size_t due : {1, 3}) scene.replica.sample_queue(due);
  const PeerRow use = scene.replica.take_use(kStep);
  EXPECT_EQ(use.microbatches, 3);
  EXPECT_EQ(use.queue, 2.0) << "the mean";
  EXPECT_EQ(scene.replica.take_use(kStep).microbatches, 0);
}

}  // namespace
}  // namespace swarmpi::stage_replica_test
