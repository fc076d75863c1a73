#include "protocol/repair/step_repair.hpp"

#include <gtest/gtest.h>

#include <variant>

#include "protocol/messages/table_rows.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::step_repair_test {
namespace {

using testing::tiny_plan;

// Peers 0 and 1 serve stage 0, peer 2 serves stage 1. Step 1 is open, and its five microbatches are
// issued: 0 and 1 to the peer that is dead now.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
    steps.router().set_peers(view.replicas(StageId(0)), 0);
    steps.open_due(Step(0), 0);
    for (const OpenSteps::Issue& issue : steps.issue(Step(0))) {
      issued.push_back(issue.microbatch);
    }
  }
  StepRepairs repair() { return repair_steps(steps, tables, view, plan, 1); }
  // The peer's table says that it has this microbatch in the stage: in stage 0 it has sent its
  // output on, and in stage 1 its backward pass is due.
  void works_on(std::int32_t peer, std::int32_t stage, const MicrobatchId& id,
                PeerId sent_to = PeerId(2)) {
    WorkRow row;
    row.work = {id, StageId(stage)};
    row.phase = stage == 0 ? Phase::passed_on : Phase::to_backward;
    row.keeps_output = true;
    row.last = StageId(1);
    if (stage == 0) row.sent_to = sent_to;
    tables[PeerId(peer)].works.push_back(row);
  }

  RunPlan plan = tiny_plan(2, 4);
  View view;
  OpenSteps steps{plan, make_router(plan.swarm, PeerId(0), StageId(0)), Step(0),
                  SealId{Incarnation(1), Term(1), 1}};
  std::vector<MicrobatchId> issued;
  Tables tables;
};

TEST(StepRepair, WhatNobodyHasIsIssuedAgain) {
  Scene scene;
  for (const std::int32_t peer : {0, 1, 2}) scene.tables[PeerId(peer)];
  ASSERT_FALSE(scene.issued.empty());
  const StepRepairs repairs = scene.repair();
  EXPECT_EQ(repairs.resent, std::ssize(scene.issued));
  EXPECT_EQ(repairs.reopened, 0);
  ASSERT_EQ(repairs.orders.size(), scene.issued.size());
  for (const auto& [peer, order] : repairs.orders) {
    EXPECT_TRUE(holds_alternative<IssueMessage>(order));
    EXPECT_TRUE(scene.view.serves(peer, StageId(0)));
  }
}

TEST(StepRepair, WhatGoesOnByItselfIsLeftAlone) {
  Scene scene;
  for (const MicrobatchId& id : scene.issued) {
    scene.works_on(0, 0, id);
    scene.works_on(2, 1, id);
  }
  const StepRepairs repairs = scene.repair();
  EXPECT_FALSE(repairs.needed());
  EXPECT_TRUE(repairs.orders.empty());
}

TEST(StepRepair, WhereTheNextStageHasLostItTheHolderSendsItsOutputAgain) {
  Scene scene;
  const PeerId dead(9);
  for (const MicrobatchId& id : scene.issued) scene.works_on(1, 0, id, dead);
  scene.tables[PeerId(2)];
  const StepRepairs repairs = scene.repair();
  ASSERT_EQ(repairs.orders.size(), scene.issued.size());
  for (const auto& [peer, order] : repairs.orders) {
    EXPECT_EQ(peer, PeerId(1));
    EXPECT_TRUE(holds_alternative<ResendMessage>(order));
  }
}

TEST(StepRepair, AStepThatOnlyATableKnowsOfWasBegunByTheLeaderBefore) {
  Scene scene;
  EXPECT_EQ(newest_begun(scene.tables, Step(0)), Step(0));
  scene.works_on(0, 0, {Step(3), Purpose::train, 0});
  EXPECT_EQ(newest_begun(scene.tables, Step(0)), Step(3));
  EXPECT_EQ(newest_begun(scene.tables, Step(5)), Step(5));
}

}  // namespace
}  // namespace swarmpi::step_repair_test
