#include "protocol/membership/failure_detector.hpp"

#include <gtest/gtest.h>

#include "protocol/fake_world_test.hpp"

namespace swarmpi {
namespace {

// The detector of one of four peers, which hears some of the others. Patience is 3 s, 4.5 s for
// those that do not lead; heartbeats come every 0.2 s.
struct Listener {
  explicit Listener(std::int32_t self)
      : membership(PeerId(self), {{PeerId(0), PeerId(1), PeerId(2), PeerId(3)}, {}, Term(1)}, plan),
        detector(membership, plan) {
    detector.watch(0, false);
  }
  void hears(const std::vector<std::int32_t>& peers, double until_s,
             const std::set<PeerId>& who_owe = {}) {
    for (; now_s < until_s; now_s += 0.2) {
      for (const std::int32_t peer : peers) detector.heard(PeerId(peer), now_s);
      detector.beat(now_s, who_owe, outbox);
      for (const Action& action : outbox.take()) {
        const auto& send = std::get<Send>(action);
        if (std::holds_alternative<PingMessage>(send.message.body)) pinged.insert(send.to);
      }
    }
  }
  static RunPlan recovering_plan() {
    RunPlan plan = testing::tiny_plan(1, 2);
    plan.recovers = true;
    return plan;
  }

  RunPlan plan = recovering_plan();
  Membership membership;
  FailureDetector detector;
  Outbox outbox;
  double now_s = 0;
  std::set<PeerId> pinged;
};

using Peers = std::vector<PeerId>;

TEST(FailureDetector, TheLeaderHasTheSilentKilledOnce) {
  Listener leader(0);
  leader.hears({1, 3}, 2.9);
  EXPECT_TRUE(leader.detector.suspect(2.9).to_kill.empty());
  leader.hears({1, 3}, 3.3);
  EXPECT_EQ(leader.detector.suspect(3.3).to_kill, Peers{PeerId(2)});
  EXPECT_TRUE(leader.detector.suspect(3.4).to_kill.empty());
  EXPECT_FALSE(leader.detector.a_leader_was_silent());
}

TEST(FailureDetector, TheNextInLineHasASilentLeaderKilledButIsMorePatient) {
  Listener next(1);
  next.hears({2, 3}, 4.4);
  EXPECT_TRUE(next.detector.suspect(4.4).to_kill.empty());
  next.hears({2, 3}, 4.8);
  EXPECT_EQ(next.detector.suspect(4.8).to_kill, Peers{PeerId(0)});
  EXPECT_TRUE(next.detector.a_leader_was_silent());
}

TEST(FailureDetector, OthersReportWhomTheyAwaitToTheLeaderThatTheyHear) {
  Listener third(2);
  third.hears({0}, 6, {PeerId(3)});
  EXPECT_EQ(third.pinged, std::set{PeerId(3)});
  const auto suspicions = third.detector.suspect(6);
  EXPECT_TRUE(suspicions.to_kill.empty());
  EXPECT_EQ(suspicions.to_report, Peers{PeerId(3)});
}

TEST(FailureDetector, WhoIsNextInLineIsPingedIfTheLeaderIsSilent) {
  Listener third(2);
  third.hears({1}, 6);
  EXPECT_EQ(third.pinged, std::set{PeerId(1)});
  EXPECT_TRUE(third.detector.suspect(6).to_kill.empty()) << "that is its part";
}

TEST(FailureDetector, WithoutRecoveryNobodyIsPingedAndAllAreAsPatientAsTheLeader) {
  Listener peer(1);
  peer.plan.recovers = false;
  peer.hears({}, 3.3, {PeerId(3)});
  EXPECT_TRUE(peer.pinged.empty());
  const auto silent = peer.detector.silent(3.3);
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_EQ(silent[0].peer, PeerId(0));
}

TEST(FailureDetector, WhoStillLivesLongAfterTheOrderIsUnreachable) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  EXPECT_EQ(leader.detector.suspect(3.3).to_kill.size(), 1u);
  leader.hears({1, 3}, 6.2);
  EXPECT_TRUE(leader.detector.suspect(6.2).unreachable.empty());
  leader.hears({1, 3}, 6.5);
  EXPECT_EQ(leader.detector.suspect(6.5).unreachable, Peers{PeerId(2)});
}

TEST(FailureDetector, WhoWasHeardSinceTheOrderIsForgiven) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.detector.suspect(3.3);
  leader.hears({1, 2, 3}, 7);
  EXPECT_TRUE(leader.detector.suspect(7).unreachable.empty());
  leader.hears({1, 3}, 10.5);
  EXPECT_EQ(leader.detector.suspect(10.5).to_kill, Peers{PeerId(2)}) << "a new order";
}

TEST(FailureDetector, OfTwoPeersWithACutLinkTheHigherIsKilled) {
  Listener leader(0);
  for (double at_s = 1; at_s < 1.9; at_s += 0.2) {
    leader.hears({1, 2, 3}, at_s);
    leader.detector.reported(PeerId(2), PeerId(3), at_s);
  }
  EXPECT_EQ(leader.detector.at_a_cut_link(leader.now_s), PeerId(3));
  EXPECT_EQ(leader.detector.at_a_cut_link(leader.now_s), std::nullopt) << "once";
}

TEST(FailureDetector, TheDeadAreForgotten) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.detector.suspect(3.3);
  leader.membership.lost(PeerId(2));
  leader.detector.forget(PeerId(2));
  leader.hears({1, 3}, 9);
  const auto suspicions = leader.detector.suspect(9);
  EXPECT_TRUE(suspicions.to_kill.empty() && suspicions.unreachable.empty());
}

// Its suspicions were wrong: the others were not silent, it was stopped.
TEST(FailureDetector, OrdersMayBeForgotten) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.detector.suspect(3.3);
  leader.detector.forget_kill_orders();
  leader.hears({1, 3}, 7);
  EXPECT_TRUE(leader.detector.suspect(7).unreachable.empty());
}

}  // namespace
}  // namespace swarmpi
