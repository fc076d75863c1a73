#include "swarm/repair.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

// Four stages; peer 10 * s + r is replica r of stage s. Peers that end in 9 are dead.
constexpr int kStages = 4;

PeerId peer(int stage, int replica = 0) { return PeerId(10 * stage + replica); }
PeerId dead(int stage) { return peer(stage, 9); }

View everybody() {
  View view;
  view.number = {Term(1), 2};
  for (int s = 0; s < kStages; ++s) {
    for (int r = 0; r < 3; ++r) view.members[peer(s, r)] = {StageId(s)};
  }
  return view;
}

Trail trail_of(Purpose purpose = Purpose::train) {
  return {{Step(3), purpose, 1},
          std::vector<std::optional<Holding>>(kStages),
          std::vector<bool>(kStages, false)};
}

Holding contributed(int stage, bool keeps = true) {
  Holding holding;
  holding.peer = peer(stage);
  holding.contributed = true;
  holding.keeps_output = holding.gives_gradient = keeps;
  return holding;
}
Holding passed_on(int stage, PeerId to) {
  Holding holding;
  holding.peer = peer(stage);
  holding.phase = Phase::passed_on;
  holding.sent_to = to;
  holding.gives_gradient = true;
  return holding;
}
Holding to_forward(int stage) {
  Holding holding;
  holding.peer = peer(stage);
  holding.phase = Phase::to_forward;
  holding.gives_gradient = true;
  return holding;
}

// "1>2-3" reads: stage 1 sends again, and stages 2 to 3 work; "s" is the source.
std::string orders(const Trail& trail) {
  std::string text;
  for (const Resend& order : plan_resends(trail, everybody())) {
    const int first = order.provider ? order.provider->value + 1 : 0;
    if (!text.empty()) text += ' ';
    text += (order.provider ? std::to_string(order.provider->value) : std::string("s")) + ">" +
            std::to_string(first) + "-" + std::to_string(order.path.last.value);
  }
  return text;
}

TEST(Repair, AChainThatIsWholeGoesOnByItself) {
  Trail trail = trail_of();
  trail.stages[0] = passed_on(0, peer(1));
  trail.stages[1] = passed_on(1, peer(2));
  trail.stages[2] = to_forward(2);
  EXPECT_EQ(orders(trail), "");
}

TEST(Repair, WhatIsOnItsWayToALivePeerIsNotSentAgain) {
  Trail trail = trail_of();
  trail.stages[0] = passed_on(0, peer(1));
  EXPECT_EQ(orders(trail), "");
}

TEST(Repair, WhatNobodyHasIsIssuedAnew) { EXPECT_EQ(orders(trail_of()), "s>0-3"); }

TEST(Repair, WhoWaitsForADeadPeerSendsItsOutputToAnother) {
  Trail trail = trail_of();
  trail.stages[0] = passed_on(0, peer(1));
  trail.stages[1] = passed_on(1, dead(2));
  EXPECT_EQ(orders(trail), "1>2-3");
}

TEST(Repair, ADeadPeersOwnWorkIsAllThatIsDoneAgain) {
  Trail trail = trail_of();
  trail.stages[0] = passed_on(0, dead(1));
  trail.stages[2] = passed_on(2, peer(3));
  trail.stages[3] = contributed(3);
  EXPECT_EQ(orders(trail), "0>1-1");
  const Path path = plan_resends(trail, everybody()).front().path;
  EXPECT_EQ(path.holders, (std::map<StageId, PeerId>{{StageId(2), peer(2)}}));
}

TEST(Repair, AContributionThatDiedIsMadeAgainFromWhatTheNeighboursKeep) {
  Trail trail = trail_of();
  for (const int stage : {0, 1, 3}) trail.stages[stage] = contributed(stage);
  EXPECT_EQ(orders(trail), "1>2-2");
}

TEST(Repair, WhatIsNotKeptIsMadeAgainFromFurtherBackAndAhead) {
  Trail trail = trail_of();
  for (const int stage : {0, 1, 3}) trail.stages[stage] = contributed(stage, false);
  EXPECT_EQ(orders(trail), "s>0-3");
  trail.stages[0] = contributed(0, true);
  EXPECT_EQ(orders(trail), "0>1-3");
  const Path path = plan_resends(trail, everybody()).front().path;
  EXPECT_EQ(path.holders.at(StageId(1)), peer(1));  // who has contributed gets it again
  EXPECT_FALSE(path.holders.contains(StageId(2)));
}

TEST(Repair, TwoGapsAreTwoOrdersIfSomebodyBetweenThemKeepsWhatHeSent) {
  Trail trail = trail_of();
  trail.stages[1] = contributed(1);
  trail.stages[3] = contributed(3);
  EXPECT_EQ(orders(trail), "s>0-0 1>2-2");
  trail.stages[1] = contributed(1, false);
  EXPECT_EQ(orders(trail), "s>0-2");
}

TEST(Repair, WhoLostItsWayGetsAnother) {
  Trail trail = trail_of();
  trail.stages[0] = to_forward(0);
  trail.stages[0]->lost_way = true;
  trail.stages[2] = contributed(2);
  trail.stages[3] = contributed(3);
  EXPECT_EQ(orders(trail), "0>1-1");
}

TEST(Repair, WhoAsksForAGradientThatIsGoneIsNotLeftWaiting) {
  Trail trail = trail_of();
  trail.stages[0] = contributed(0);
  trail.stages[1] = passed_on(1, peer(2));
  trail.stages[1]->planned_in = {Term(1), 1};
  trail.stages[1]->last = StageId(1);
  trail.stages[2] = contributed(2, true);
  trail.stages[3] = contributed(3, true);
  EXPECT_EQ(orders(trail), "");
  trail.stages[2]->gives_gradient = false;
  EXPECT_EQ(orders(trail), "1>2-2");
}

TEST(Repair, WhatAnEarlierRepairIsOnItsWayToIsNotRepairedTwice) {
  Trail trail = trail_of();
  trail.stages[0] = to_forward(0);
  trail.stages[0]->planned_in = {Term(1), 1};
  trail.stages[0]->last = StageId(3);
  trail.stages[1] = contributed(1, false);
  EXPECT_EQ(orders(trail), "");
  trail.stages[0]->last = StageId(0);  // it would not come so far
  EXPECT_EQ(orders(trail), "s>0-3");
  trail.stages[0] = passed_on(0, peer(1));
  trail.stages[0]->planned_in = {Term(1), 1};
  trail.stages[0]->last = StageId(3);
  EXPECT_EQ(orders(trail), "");
  trail.stages[1]->planned_in = {Term(1), 1};  // has passed there, and come back
  EXPECT_EQ(orders(trail), "s>0-3");
}

TEST(Repair, AStageWhoseGradientIsKnownNeedsNothing) {
  Trail trail = trail_of();
  trail.stages[0] = contributed(0);
  trail.stages[2] = contributed(2);
  trail.stages[3] = contributed(3);
  trail.settled[1] = true;
  EXPECT_EQ(orders(trail), "");
}

TEST(Repair, ValidationGoesForwardFromTheLastWhoKeptItsOutput) {
  Trail trail = trail_of(Purpose::validate);
  EXPECT_EQ(orders(trail), "s>0-3");
  trail.stages[0] = contributed(0);
  trail.stages[0]->contributed = false;
  trail.stages[0]->sent_to = peer(1);
  EXPECT_EQ(orders(trail), "");
  trail.stages[1] = trail.stages[0];
  trail.stages[1]->peer = peer(1);
  trail.stages[1]->sent_to = dead(2);
  EXPECT_EQ(orders(trail), "1>2-3");
  trail.stages[1]->keeps_output = false;
  EXPECT_EQ(orders(trail), "0>1-3");
}

}  // namespace
}  // namespace swarmpi
