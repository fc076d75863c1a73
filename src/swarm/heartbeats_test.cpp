#include "swarm/heartbeats.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

std::vector<PeerId> told(Heartbeats& heartbeats, double now_s) {
  Outbox outbox;
  heartbeats.beat(now_s, outbox);
  std::vector<PeerId> peers;
  for (const Action& action : outbox.take()) peers.push_back(std::get<Send>(action).to);
  return peers;
}

TEST(Heartbeats, TellTheOthersEveryPeriod) {
  Heartbeats leader(PeerId(0), 0.2, 3);
  leader.watch({PeerId(0), PeerId(1), PeerId(2)}, 10);
  EXPECT_EQ(told(leader, 10), (std::vector{PeerId(1), PeerId(2)}));
  EXPECT_EQ(told(leader, 10.1), std::vector<PeerId>()) << "not due yet";
  EXPECT_EQ(leader.due_s(), 10.2);
  EXPECT_EQ(told(leader, 10.2).size(), 2u);
}

TEST(Heartbeats, APeerThatIsAloneHasNobodyToTell) {
  Heartbeats alone(PeerId(0), 0.2, 3);
  alone.watch({PeerId(0)}, 1);
  EXPECT_FALSE(alone.due_s());
  EXPECT_FALSE(alone.suspect(1000));
}

TEST(Heartbeats, SuspectWhoeverIsSilentForTooLong) {
  Heartbeats leader(PeerId(0), 0.2, 3);
  leader.watch({PeerId(1), PeerId(2)}, 0);
  for (double now_s = 0; now_s < 3.1; now_s += 0.2) {
    leader.heard(PeerId(1), now_s);
    told(leader, now_s);
  }
  EXPECT_FALSE(leader.suspect(3.0));
  const auto silent = leader.suspect(3.1);
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->peer, PeerId(2));
}

TEST(Heartbeats, GiveOthersTheTimeThatThisPeerSlept) {
  Heartbeats peer(PeerId(1), 0.2, 3);
  peer.watch({PeerId(0)}, 0);
  told(peer, 0);
  peer.heard(PeerId(0), 0.1);
  told(peer, 60);  // stopped for a minute: the leader's signs of life may still be on their way
  EXPECT_FALSE(peer.suspect(60));
  EXPECT_FALSE(peer.suspect(62));
  EXPECT_TRUE(peer.suspect(64)) << "now it had its chance";
}

}  // namespace
}  // namespace swarmpi
