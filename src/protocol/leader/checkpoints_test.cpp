#include "protocol/leader/checkpoints.hpp"

#include <gtest/gtest.h>

#include "protocol/leader/leader_parts_test.hpp"
#include "protocol/messages/checkpoints.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::checkpoints_test {
namespace {

using Texts = std::vector<std::string>;

// A checkpoint is due after every fourth step, and one is kept.
struct Scene : testing::LeaderParts {
  Scene() {
    plan.checkpoint_every = 4;
    plan.checkpoints_kept = 1;
    history.agreement = Agreement(plan, Step(3));
    auto last = std::make_shared<CommitRecord>();
    last->step = Step(4);
    history.agreement.await(last, 0);
    const std::pair<std::int32_t, std::int32_t> replicas[] = {{0, 0}, {1, 0}, {2, 1}};
    for (const auto& [peer, stage] : replicas) {
      const HashFact fact{Step(4), StageId(stage), {{7}, {}}};
      history.agreement.enter(view, fact, PeerId(peer));
    }
    (void)history.agreement.decide(view);
  }
  Status stored(std::int32_t peer, std::int32_t stage, std::uint64_t hash = 7) {
    return checkpoints.stored({Step(4), StageId(stage), true, {}, {hash}, ""}, PeerId(peer));
  }

  LateWork late{plan};
  Checkpoints checkpoints{plan, view, history, record, late, hearing.detector, outbox, now_s};
};

TEST(Checkpoints, OneThatIsOwedIsAskedOfOneReplicaOfEachStage) {
  Scene scene;
  EXPECT_FALSE(scene.checkpoints.owed());
  scene.checkpoints.passed(Step(4), 1);
  EXPECT_TRUE(scene.checkpoints.owed());
  EXPECT_FALSE(scene.checkpoints.hold_commits()) << "nothing is being written";
  EXPECT_TRUE(scene.checkpoints.ask(false));
  EXPECT_FALSE(scene.checkpoints.owed());
  EXPECT_FALSE(scene.checkpoints.has_room());
  scene.events();
  EXPECT_EQ(scene.told<CheckpointMessage>(), (std::vector{PeerId(0), PeerId(2)}));
}

TEST(Checkpoints, WhatItTookIsStoredOnceTheManifestIsDurable) {
  Scene scene;
  scene.checkpoints.passed(Step(4), 1);
  scene.checkpoints.ask(false);
  EXPECT_TRUE(scene.stored(0, 0).ok());
  EXPECT_TRUE(scene.stored(2, 1).ok());
  scene.now_s = 2.5;
  scene.checkpoints.durable({Step(4)});
  EXPECT_EQ(scene.events(), (Texts{"checkpoint 0 -1"}));
  EXPECT_EQ(scene.checkpoints.last_took_s(), 2.5);
  EXPECT_EQ(scene.history.commit_log.checkpointed(), Step(4));
  scene.checkpoints.committed_another();
  EXPECT_EQ(scene.checkpoints.last_took_s(), 0);
}

TEST(Checkpoints, APartThatIsNotWhatAllAgreedOnIsAnError) {
  Scene scene;
  scene.checkpoints.passed(Step(4), 1);
  scene.checkpoints.ask(false);
  EXPECT_FALSE(scene.stored(2, 1, 8).ok());
}

TEST(Checkpoints, WhereNobodyCanWriteAStageThereIsNone) {
  Scene scene;
  scene.checkpoints.passed(Step(4), 1);
  scene.late.enter(LateMessage{Task::storage, true, "a write", 5}, PeerId(2), scene.now_s);
  EXPECT_FALSE(scene.checkpoints.ask(false));
  EXPECT_EQ(scene.events(), (Texts{"dropped -1 1"}));
  EXPECT_FALSE(scene.checkpoints.owed());
  EXPECT_NE(scene.checkpoints.who_hangs(StageId(1)).find("peer 2: a write"), std::string::npos);
}

TEST(Checkpoints, ForTheLastOneADiskThatIsSlowMayDo) {
  Scene scene;
  scene.checkpoints.passed(Step(4), 1);
  scene.late.enter(LateMessage{Task::storage, true, "a write", 5}, PeerId(2), scene.now_s);
  EXPECT_TRUE(scene.checkpoints.ask(true));
}

}  // namespace
}  // namespace swarmpi::checkpoints_test
