#include "protocol/step/ledger.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/seal.hpp"
#include "protocol/messages/step_facts.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::ledger_test {
namespace {

using testing::tiny_plan;

constexpr std::int32_t kMicrobatches = 5;
const Step kStep(2);

ContributionFact fact(std::int32_t stage, std::int32_t index) {
  kernels::Contribution contribution;
  contribution.exponent = static_cast<std::int16_t>(index);
  return {{{kStep, Purpose::train, index}, StageId(stage)}, {contribution}};
}

// Stage 0 by peers 0 and 1, stage 1 by peer 2.
Ledger full_ledger(const RunPlan& plan) {
  Ledger ledger(plan, kStep);
  for (std::int32_t i = 0; i < kMicrobatches; ++i) {
    ledger.add_contribution(fact(0, i), PeerId(i % 2));
    ledger.add_contribution(fact(1, i), PeerId(2));
    ledger.add_loss(LossFact{{kStep, Purpose::train, i}, 1.0 + i});
  }
  return ledger;
}

TEST(Ledger, IsCompleteOnceEveryMicrobatchIsInEveryStage) {
  const RunPlan plan = tiny_plan(2, 4);
  const Ledger ledger = full_ledger(plan);
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(ledger.facts()->loss_nats, 15.0);
  EXPECT_EQ(ledger.facts()->measured, (Exponents{4, 4}));
  const std::vector<SealShare> shares = ledger.shares(StageId(0));
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].microbatches.text(), "0,2,4");
  EXPECT_EQ(shares[1].microbatches.text(), "1,3");
}

TEST(Ledger, WhatADeadPeerHadContributedIsMissingAgain) {
  const RunPlan plan = tiny_plan(2, 4);
  Ledger ledger = full_ledger(plan);
  ledger.forget(PeerId(1));
  EXPECT_FALSE(ledger.complete());
  EXPECT_FALSE(ledger.covered(StageId(0)));
  EXPECT_TRUE(ledger.covered(StageId(1)));
  EXPECT_EQ(ledger.finished_count(), 3);
  EXPECT_EQ(ledger.contributor({{kStep, Purpose::train, 1}, StageId(0)}), std::nullopt);
  for (const std::int32_t i : {1, 3}) ledger.add_contribution(fact(0, i), PeerId(0));
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(ledger.facts()->loss_nats, 15.0);
}

TEST(Ledger, InAMixedRunALossIsThatOfTheContributionThatCounts) {
  RunPlan plan = tiny_plan(2, 4);
  plan.swarm.allow_mixed = true;
  Ledger ledger = full_ledger(plan);
  // Computed once more for a repair, by other kernels: the contribution is there already.
  ledger.add_loss(LossFact{{kStep, Purpose::train, 0}, 1.5});
  EXPECT_EQ(ledger.facts()->loss_nats, 15.0);
  // Lost with the accumulators of the last stage, which another peer fills again.
  ledger.forget(PeerId(2));
  EXPECT_FALSE(ledger.complete());
  for (std::int32_t i = 0; i < kMicrobatches; ++i) {
    ledger.add_contribution(fact(1, i), PeerId(3));
    EXPECT_FALSE(ledger.complete());
    ledger.add_loss(LossFact{{kStep, Purpose::train, i}, 2.0});
  }
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(ledger.facts()->loss_nats, 10.0);
}

TEST(Ledger, InAMixedRunTheFirstStagesDeathsLeaveLossesAlone) {
  RunPlan plan = tiny_plan(2, 4);
  plan.swarm.allow_mixed = true;
  Ledger ledger = full_ledger(plan);
  ledger.forget(PeerId(1));
  for (const std::int32_t i : {1, 3}) ledger.add_contribution(fact(0, i), PeerId(0));
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(ledger.facts()->loss_nats, 15.0);
}

TEST(Ledger, ASettledStageNeedsNoContributions) {
  const RunPlan plan = tiny_plan(2, 4);
  Ledger ledger = full_ledger(plan);
  ledger.set_facts(ledger.facts());
  ledger.forget(PeerId(1));
  ledger.set_settled(StageId(0), true);
  EXPECT_TRUE(ledger.complete());
  ledger.set_settled(StageId(0), false);
  EXPECT_FALSE(ledger.complete());
}

TEST(Ledger, ATableTellsANewLeaderWhatReportsToldTheFirst) {
  const RunPlan plan = tiny_plan(1, 4);
  Ledger ledger(plan, kStep);
  StageRow row;
  row.step = kStep;
  row.stage = StageId(0);
  row.contributed = Bitmap(kMicrobatches);
  kernels::Contribution measured;
  for (std::int32_t i = 0; i < kMicrobatches; ++i) {
    row.contributed.insert(i);
    measured.merge(fact(0, i).tensors[0]);
  }
  row.tensors = {measured};
  ledger.add_stage_row(row, PeerId(3));
  EXPECT_FALSE(ledger.complete());  // the losses are not known
  for (std::int32_t i = 0; i < kMicrobatches; ++i) {
    ledger.add_loss(LossFact{{kStep, Purpose::train, i}, 1.0});
  }
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(ledger.facts()->measured, Exponents{4});
}

TEST(Ledger, AMicrobatchThatTwoPeersContributedIsSealedForOne) {
  const RunPlan plan = tiny_plan(2, 4);
  Ledger ledger = full_ledger(plan);
  ledger.add_contribution(fact(0, 2), PeerId(1));
  const std::vector<SealShare> shares = ledger.shares(StageId(0));
  EXPECT_EQ(shares[0].microbatches.text(), "0,2,4");
  EXPECT_EQ(shares[1].microbatches.text(), "1,3");
}

}  // namespace
}  // namespace swarmpi::ledger_test
