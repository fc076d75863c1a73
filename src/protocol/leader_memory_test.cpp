// What a leader decides where memory is bounded: who learns, who gives way, and when a run ends.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "protocol/leader.hpp"
#include "protocol/membership/hearing_test.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/messages/views.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::leader_memory_test {
namespace {

using testing::tiny_plan;

// Peers 0, which leads, and 1 serve stage 0; peer 2 serves stage 1, peer 3 is a spare. A stage
// takes 4 bytes, and 5 to learn.
struct TightSwarm {
  explicit TightSwarm(const Budgets& budgets) {
    plan.recovers = true;
    plan.needs = {0, {{4, 5}, {4, 5}}};
    plan.torture_only.notices_together_s = 0;
    Succession succession;
    succession.term = Term(1);
    for (const std::int32_t id : {0, 1}) succession.view.serve(PeerId(id), StageId(0));
    succession.view.serve(PeerId(2), StageId(1));
    succession.view.add(PeerId(3));
    for (const auto& [peer, bytes] : budgets) succession.view.set_budget(peer, bytes);
    succession.at_start.workers = 3;
    succession.at_start.highest_id_at_start = PeerId(3);
    leader = std::make_unique<Leader>(PeerId(0), plan, CommitLog(plan, {}), succession, outbox,
                                      hearing.detector, now_s);
    leader->begin({});
    leader->lead();
    outbox.take();
  }
  void tables() {
    const View view = leader->view();
    for (const auto& [peer, stages] : view.members()) {
      TableMessage table;
      table.view = view.number;
      table.incarnation = incarnation;
      leader->receive(table, peer);
    }
  }
  // All have heard of it, and have answered.
  void dies(std::int32_t peer) {
    leader->lost(PeerId(peer), "lost");
    tables();
  }
  // The newest checkpoint is asked for, and there is none: all begin anew, if they do.
  void goes_back() {
    bool asked = false;
    for (const Action& action : outbox.take()) asked |= holds_alternative<LoadManifest>(action);
    ASSERT_TRUE(asked);
    leader->receive(ManifestLoaded{});
    incarnation = Incarnation(incarnation.value + 1);
  }
  std::optional<StoreEnd> end() {
    for (const Action& action : outbox.take()) {
      if (const auto* end = get_if<StoreEnd>(&action)) return *end;
    }
    return std::nullopt;
  }
  std::set<StageId> served_by(std::int32_t peer) const {
    return leader->view().members().at(PeerId(peer));
  }
  RunPlan plan = tiny_plan(2, 2);
  Outbox outbox;
  testing::Hearing hearing{plan, 4};
  double now_s = 0;
  Incarnation incarnation;
  std::unique_ptr<Leader> leader;
};

using Served = std::set<StageId>;

TEST(LeaderMemory, AStageThatWasLostGoesToOneThatHasRoomForIt) {
  TightSwarm scene({{PeerId(0), 4}, {PeerId(1), 8}, {PeerId(2), 4}, {PeerId(3), 3}});
  scene.leader->lost(PeerId(0), "lost");
  scene.dies(2);
  scene.goes_back();
  EXPECT_FALSE(scene.end());
  EXPECT_EQ(scene.served_by(1), (Served{StageId(0), StageId(1)}));
  EXPECT_TRUE(scene.served_by(3).empty());
  EXPECT_EQ(scene.leader->view().budgets(), (Budgets{{PeerId(1), 8}, {PeerId(3), 3}}));
}

TEST(LeaderMemory, WhatFitsNowhereEndsTheRunAndSaysWhatWouldBeEnough) {
  TightSwarm scene({{PeerId(0), 7}, {PeerId(1), 4}, {PeerId(2), 4}, {PeerId(3), 3}});
  scene.leader->lost(PeerId(1), "lost");
  scene.dies(2);
  scene.goes_back();
  const auto end = scene.end();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, ExitStatus::stopped);
  EXPECT_EQ(
      end->why,
      "too little memory: a stage was lost with its last replica, and the peers that are left "
      "cannot hold all stages: stage 0 needs 4 B, stage 1 needs 4 B, each peer 0 B "
      "besides; peer 0 may take 7 B, peer 3 may take 3 B; one more peer that may take "
      "4 B would be enough; resume with more ranks, or a larger compute.memory_gb");
}

TEST(LeaderMemory, WhoHasNoRoomForWhatItIsToLearnIsNotAskedAgain) {
  TightSwarm scene({{PeerId(0), 9}, {PeerId(3), 9}});
  scene.dies(1);
  scene.leader->lead();
  ASSERT_TRUE(scene.leader->view().learns(PeerId(3), StageId(0)));
  scene.tables();
  scene.leader->receive(NoRoomMessage{StageId(0)}, PeerId(3));
  EXPECT_FALSE(scene.leader->view().learners().contains(PeerId(3)));
  EXPECT_EQ(scene.leader->view().budgets().at(PeerId(3)), 4) << "one less than was asked for";
  scene.tables();
  scene.now_s = 1000;  // long after it may begin again
  scene.leader->lead();
  EXPECT_TRUE(scene.leader->view().learners().empty());
  scene.leader->receive(NoRoomMessage{StageId(0)}, PeerId(3));
  EXPECT_EQ(scene.leader->view().budgets().at(PeerId(3)), 4) << "said twice";
}

TEST(LeaderMemory, WhereAStageFindsNoRoomAsItIsLoadedAllGoBackOnceMore) {
  TightSwarm scene({{PeerId(0), 8}, {PeerId(1), 8}, {PeerId(3), 8}});
  scene.dies(2);
  scene.goes_back();
  scene.tables();
  const PeerId server = scene.leader->view().replicas(StageId(1)).front();
  scene.leader->receive(NoRoomMessage{StageId(1)}, server);
  scene.tables();
  scene.goes_back();
  EXPECT_FALSE(scene.end());
  EXPECT_FALSE(scene.leader->view().serves(server, StageId(1)));
  EXPECT_FALSE(scene.leader->view().replicas(StageId(1)).empty());
}

// A peer says so in each view, until all go back.
TEST(LeaderMemory, WhoFindsNoRoomAsItLoadsAndSaysSoAgainIsNotAnsweredWithAnotherView) {
  TightSwarm scene({{PeerId(0), 8}, {PeerId(1), 8}, {PeerId(3), 8}});
  scene.dies(2);
  scene.goes_back();
  scene.tables();
  const PeerId server = scene.leader->view().replicas(StageId(1)).front();
  scene.leader->receive(NoRoomMessage{StageId(1)}, server);
  const ViewNumber view = scene.leader->view().number;
  scene.leader->receive(NoRoomMessage{StageId(1)}, server);
  EXPECT_EQ(scene.leader->view().number, view);
}

TEST(LeaderMemory, ANewcomerBringsItsBudget) {
  TightSwarm scene({});
  scene.leader->receive(JoinMessage{PeerId(4), 17}, PeerId(4));
  scene.leader->receive(JoinMessage{PeerId(5), {}}, PeerId(5));
  EXPECT_EQ(scene.leader->view().budgets(), (Budgets{{PeerId(4), 17}}));
}

TEST(LeaderMemory, AShadowGivesWayToAnHeir) {
  TightSwarm scene({{PeerId(0), 8}, {PeerId(1), 8}, {PeerId(2), 4}, {PeerId(3), 5}});
  scene.plan.swarm.shadows = 1;
  scene.plan.stage_costs = {9, 1};
  scene.leader->lead();
  ASSERT_TRUE(scene.leader->view().learns(PeerId(3), StageId(0)));
  scene.tables();
  scene.leader->receive(NoticeMessage{"preempted"}, PeerId(2));
  scene.hearing.heard({1, 2, 3}, 0);
  scene.leader->lead();
  EXPECT_TRUE(scene.leader->view().learns(PeerId(3), StageId(1)));
  EXPECT_FALSE(scene.leader->view().learns(PeerId(3), StageId(0)));
}

}  // namespace
}  // namespace swarmpi::leader_memory_test
