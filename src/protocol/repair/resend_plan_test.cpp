#include "protocol/repair/resend_plan.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/microbatches.hpp"

namespace swarmpi::resend_plan_test {
namespace {

// Four stages; peer 10 * s + r is replica r of stage s. Peers that end in 9 are dead.
constexpr int kStages = 4;

PeerId peer(int stage, int replica = 0) { return PeerId(10 * stage + replica); }
PeerId dead(int stage) { return peer(stage, 9); }

View everybody() {
  View view;
  view.number = {Term(1), 2};
  for (int s = 0; s < kStages; ++s) {
    for (int r = 0; r < 3; ++r) view.serve(peer(s, r), StageId(s));
  }
  return view;
}

MicrobatchState microbatch_state(Purpose purpose = Purpose::train) {
  return {{Step(3), purpose, 1},
          std::vector<std::optional<StageHolder>>(kStages),
          std::vector<bool>(kStages, false)};
}

StageHolder contributed(int stage, bool keeps = true) {
  StageHolder holder;
  holder.peer = peer(stage);
  holder.phase = Phase::over;
  holder.keeps_output = holder.gives_gradient = keeps;
  return holder;
}
StageHolder passed_on(int stage, PeerId to) {
  StageHolder holder;
  holder.peer = peer(stage);
  holder.phase = Phase::passed_on;
  holder.sent_to = to;
  holder.gives_gradient = true;
  return holder;
}
StageHolder to_forward(int stage) {
  StageHolder holder;
  holder.peer = peer(stage);
  holder.phase = Phase::to_forward;
  holder.gives_gradient = true;
  return holder;
}

// "1>2-3" reads: stage 1 sends again, and stages 2 to 3 work; "s" for the source.
std::string orders(const MicrobatchState& state) {
  std::string text;
  for (const Resend& order : plan_resends(state, everybody())) {
    const int first = order.provider ? order.provider->value + 1 : 0;
    if (!text.empty()) text += ' ';
    text += (order.provider ? std::to_string(order.provider->value) : std::string("s")) + ">" +
            std::to_string(first) + "-" + std::to_string(order.path.last.value);
  }
  return text;
}

TEST(ResendPlan, AChainThatIsWholeGoesOnByItself) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = passed_on(0, peer(1));
  state.stages[1] = passed_on(1, peer(2));
  state.stages[2] = to_forward(2);
  EXPECT_EQ(orders(state), "");
}

TEST(ResendPlan, WhatIsOnItsWayToALivePeerIsNotSentAgain) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = passed_on(0, peer(1));
  EXPECT_EQ(orders(state), "");
}

TEST(ResendPlan, WhatNobodyHasIsIssuedAnew) { EXPECT_EQ(orders(microbatch_state()), "s>0-3"); }

TEST(ResendPlan, APeerThatWaitsForADeadOneSendsItsOutputToAnother) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = passed_on(0, peer(1));
  state.stages[1] = passed_on(1, dead(2));
  EXPECT_EQ(orders(state), "1>2-3");
}

TEST(ResendPlan, ADeadPeersOwnWorkIsAllThatIsDoneAgain) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = passed_on(0, dead(1));
  state.stages[2] = passed_on(2, peer(3));
  state.stages[3] = contributed(3);
  EXPECT_EQ(orders(state), "0>1-1");
  const Path path = plan_resends(state, everybody()).front().path;
  EXPECT_EQ(path.holders, (std::map<StageId, PeerId>{{StageId(2), peer(2)}}));
}

TEST(ResendPlan, AContributionThatDiedIsMadeAgainFromWhatTheNeighboursKeep) {
  MicrobatchState state = microbatch_state();
  for (const int stage : {0, 1, 3}) state.stages[stage] = contributed(stage);
  EXPECT_EQ(orders(state), "1>2-2");
}

TEST(ResendPlan, WhatIsNotKeptIsMadeAgainFromFurtherBackAndAhead) {
  MicrobatchState state = microbatch_state();
  for (const int stage : {0, 1, 3}) state.stages[stage] = contributed(stage, false);
  EXPECT_EQ(orders(state), "s>0-3");
  state.stages[0] = contributed(0, true);
  EXPECT_EQ(orders(state), "0>1-3");
  const Path path = plan_resends(state, everybody()).front().path;
  EXPECT_EQ(path.holders.at(StageId(1)), peer(1));  // it has contributed, and gets it again
  EXPECT_FALSE(path.holders.contains(StageId(2)));
}

TEST(ResendPlan, TwoGapsAreTwoOrdersIfAPeerBetweenThemKeepsWhatItSent) {
  MicrobatchState state = microbatch_state();
  state.stages[1] = contributed(1);
  state.stages[3] = contributed(3);
  EXPECT_EQ(orders(state), "s>0-0 1>2-2");
  state.stages[1] = contributed(1, false);
  EXPECT_EQ(orders(state), "s>0-2");
}

TEST(ResendPlan, APeerWhosePathIsBrokenGetsAnother) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = to_forward(0);
  state.stages[0]->path_broken = true;
  state.stages[2] = contributed(2);
  state.stages[3] = contributed(3);
  EXPECT_EQ(orders(state), "0>1-1");
}

TEST(ResendPlan, APeerThatWaitsForAGradientThatIsGoneIsRepaired) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = contributed(0);
  state.stages[1] = passed_on(1, peer(2));
  state.stages[1]->planned_in = {Term(1), 1};
  state.stages[1]->last = StageId(1);
  state.stages[2] = contributed(2, true);
  state.stages[3] = contributed(3, true);
  EXPECT_EQ(orders(state), "");
  state.stages[2]->gives_gradient = false;
  EXPECT_EQ(orders(state), "1>2-2");
}

TEST(ResendPlan, AStageThatAnEarlierRepairWillReachIsNotRepairedTwice) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = to_forward(0);
  state.stages[0]->planned_in = {Term(1), 1};
  state.stages[0]->last = StageId(3);
  state.stages[1] = contributed(1, false);
  EXPECT_EQ(orders(state), "");
  state.stages[0]->last = StageId(0);  // that repair ends before
  EXPECT_EQ(orders(state), "s>0-3");
  state.stages[0] = passed_on(0, peer(1));
  state.stages[0]->planned_in = {Term(1), 1};
  state.stages[0]->last = StageId(3);
  EXPECT_EQ(orders(state), "");
  state.stages[1]->planned_in = {Term(1), 1};  // has passed there, and come back
  EXPECT_EQ(orders(state), "s>0-3");
}

TEST(ResendPlan, AStageWhoseGradientIsKnownNeedsNothing) {
  MicrobatchState state = microbatch_state();
  state.stages[0] = contributed(0);
  state.stages[2] = contributed(2);
  state.stages[3] = contributed(3);
  state.settled[1] = true;
  EXPECT_EQ(orders(state), "");
}

TEST(ResendPlan, ValidationGoesForwardFromTheLastPeerThatKeepsItsOutput) {
  MicrobatchState state = microbatch_state(Purpose::validate);
  EXPECT_EQ(orders(state), "s>0-3");
  state.stages[0] = contributed(0);
  state.stages[0]->sent_to = peer(1);
  EXPECT_EQ(orders(state), "");
  state.stages[1] = state.stages[0];
  state.stages[1]->peer = peer(1);
  state.stages[1]->sent_to = dead(2);
  EXPECT_EQ(orders(state), "1>2-3");
  state.stages[1]->keeps_output = false;
  EXPECT_EQ(orders(state), "0>1-3");
}

}  // namespace
}  // namespace swarmpi::resend_plan_test
