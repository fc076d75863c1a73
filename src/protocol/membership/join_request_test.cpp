#include "protocol/membership/join_request.hpp"

#include <gtest/gtest.h>

#include "protocol/membership/initial_membership.hpp"
#include "protocol/membership/membership.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::join_request_test {
namespace {

const RunPlan kPlan = testing::tiny_plan(1, 2);

// Peers that are sent a request, and how many pings.
std::pair<std::vector<PeerId>, int> sent(JoinRequest& request, const Membership& membership,
                                         double now_s = 1) {
  Outbox outbox;
  request.send(membership, now_s, outbox);
  std::vector<PeerId> asked;
  int pings = 0;
  for (const Action& action : outbox.take()) {
    const auto& send = get<Send>(action);
    if (holds_alternative<JoinMessage>(send.message.body)) asked.push_back(send.to);
    pings += holds_alternative<PingMessage>(send.message.body) ? 1 : 0;
  }
  return {asked, pings};
}

TEST(JoinRequest, GoesToAllThatLiveAsFarAsThePeerKnows) {
  InitialMembership initial{{PeerId(0), PeerId(1)}, {PeerId(2)}, Term(1), {PeerId(5), PeerId(6)}};
  Membership membership(PeerId(7), initial, kPlan);
  membership.lost(PeerId(1));
  membership.lost(PeerId(6));
  JoinRequest request(1, 1, kPatienceToJoinS);
  EXPECT_EQ(sent(request, membership),
            (std::pair{std::vector{PeerId(0), PeerId(2), PeerId(5)}, 0}));
}

TEST(JoinRequest, AMemberWhoseLeaderHasDiedPingsTheNextLeaderToo) {
  Membership membership(PeerId(7), {{PeerId(0)}, {}, Term(1)}, kPlan);
  membership.adopt(
      share({{Term(1), 1}, {{PeerId(0), {}}, {PeerId(4), {}}, {PeerId(7), {}}}, {}, {}}));
  membership.lost(PeerId(0));
  JoinRequest request(1, 1, kPatienceToJoinS);
  EXPECT_EQ(sent(request, membership), (std::pair{std::vector{PeerId(4)}, 1}));
}

TEST(JoinRequest, IsRepeatedUntilItIsGivenUp) {
  Membership membership(PeerId(7), {{PeerId(0)}, {}, Term(1)}, kPlan);
  JoinRequest request(1, 1, kPatienceToJoinS);
  EXPECT_EQ(sent(request, membership, 1).first.size(), 1u);
  EXPECT_TRUE(sent(request, membership, 1.4).first.empty()) << "not due yet";
  EXPECT_EQ(request.due_s(), 1 + kAskAgainS);
  EXPECT_EQ(sent(request, membership, 1 + kAskAgainS).first.size(), 1u);
  EXPECT_FALSE(request.gives_up(30.9));
  EXPECT_TRUE(request.gives_up(1 + kPatienceToJoinS));
}

// Such as one that has asked to be let in, and of which nobody else knew.
TEST(JoinRequest, GoesToThoseThatHaveComeSince) {
  Membership membership(PeerId(7), {{PeerId(0)}, {}, Term(1)}, kPlan);
  membership.heard_of(PeerId(9));
  membership.lost(PeerId(0));
  JoinRequest request(1, 1, 30);
  EXPECT_EQ(sent(request, membership).first, std::vector{PeerId(9)});
}

}  // namespace
}  // namespace swarmpi::join_request_test
