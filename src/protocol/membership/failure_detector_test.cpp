#include "protocol/membership/failure_detector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::failure_detector_test {
namespace {

using Peers = std::vector<PeerId>;

// The detector of one of four peers, which hears some of the others. Patience is 3 s, 4.5 s for
// those that do not lead; heartbeats come every 0.2 s.
struct Listener {
  explicit Listener(std::int32_t self)
      : membership(PeerId(self), {{PeerId(0), PeerId(1), PeerId(2), PeerId(3)}, {}, Term(1)},
                   plan) {
    detector.watch(self == 0 ? Peers{PeerId(1), PeerId(2), PeerId(3)} : Peers{PeerId(0)}, 0, false);
  }
  void hears(const std::vector<std::int32_t>& peers, double until_s,
             const FlatSet<PeerId>& who_owe = {}) {
    for (; now_s < until_s; now_s += 0.2) {
      for (const std::int32_t peer : peers) {
        detector.heard(PeerId(peer), now_s);
        answer(PeerId(peer));
      }
      detector.beat(now_s, who_owe, {});
      note();
    }
  }
  // All pings that it has got.
  void answer(PeerId peer) {
    for (const double sent_s : std::exchange(to_be_answered[peer], {})) {
      detector.heard(peer,
                     {.answers_s = sent_s, .leader = PeerId(0), .leader_silent_s = leader_silent_s},
                     now_s);
    }
  }
  // The peer does not hear the other, and tells this one, the leader.
  void reports(std::int32_t from, std::int32_t other, double at_s) {
    detector.reported(PeerId(from), PeerId(other), at_s);
    note();
  }
  // The peers that are killed by this, or at a link that is cut.
  Peers kills(double at_s) {
    survivors.clear();
    for (const Survivor& survivor : detector.suspect(at_s)) survivors.push_back(survivor.peer);
    detector.kill_at_a_cut_link(at_s);
    return note();
  }
  Peers note() {
    Peers killed;
    for (const Action& action : outbox.take()) {
      if (const auto* kill = get_if<KillPeer>(&action)) killed.push_back(kill->peer);
      const auto* send = get_if<Send>(&action);
      if (send == nullptr) continue;
      if (const auto* ping = get_if<PingMessage>(&send->message.body)) {
        pinged.insert(send->to);
        to_be_answered[send->to].push_back(ping->sent_s);
      }
      const auto* suspect = get_if<SuspectMessage>(&send->message.body);
      if (suspect != nullptr) reported.push_back(suspect->peer);
    }
    return killed;
  }
  static RunPlan recovering_plan() {
    RunPlan plan = testing::tiny_plan(1, 2);
    plan.recovers = true;
    return plan;
  }

  RunPlan plan = recovering_plan();
  Membership membership;
  Outbox outbox;
  FailureDetector detector{membership, plan, outbox};
  double now_s = 0;
  std::set<PeerId> pinged;
  std::map<PeerId, std::vector<double>> to_be_answered;
  double leader_silent_s = 100;  // as the others say
  Peers reported, survivors;
};

TEST(FailureDetector, TheLeaderHasTheSilentKilledOnce) {
  Listener leader(0);
  leader.hears({1, 3}, 2.9);
  EXPECT_TRUE(leader.kills(2.9).empty());
  leader.hears({1, 3}, 3.3);
  EXPECT_EQ(leader.kills(3.3), Peers{PeerId(2)});
  EXPECT_TRUE(leader.kills(3.4).empty());
}

TEST(FailureDetector, TheNextInLineHasASilentLeaderKilledButIsMorePatient) {
  Listener next(1);
  next.hears({2, 3}, 4.4);
  EXPECT_TRUE(next.kills(4.4).empty());
  next.hears({2, 3}, 4.8);
  EXPECT_EQ(next.kills(4.8), Peers{PeerId(0)});
}

TEST(FailureDetector, OthersReportWhomTheyAwaitToTheLeaderThatTheyHear) {
  Listener third(2);
  third.hears({0}, 2.9, {PeerId(3)});
  EXPECT_TRUE(third.pinged.empty()) << "work takes its time";
  third.hears({0}, 7.4, {PeerId(3)});
  EXPECT_EQ(third.pinged, std::set{PeerId(3)});
  EXPECT_TRUE(third.kills(7.4).empty());
  EXPECT_TRUE(third.reported.empty()) << "its answer may have a long way";
  third.hears({0}, 8, {PeerId(3)});
  EXPECT_TRUE(third.kills(8).empty());
  EXPECT_EQ(third.reported, Peers{PeerId(3)});
}

// It owed work for long, and had nothing to say.
TEST(FailureDetector, WhoIsNextInLineIsAskedBeforeItCountsAsSilent) {
  Listener third(2);
  third.hears({0, 3}, 6);
  third.hears({3}, 12.3, {PeerId(1)});
  EXPECT_TRUE(third.pinged.contains(PeerId(1)));
  EXPECT_TRUE(third.kills(12.3).empty()) << "the leader is silent, the next may answer still";
  third.hears({3}, 13.9, {PeerId(1)});
  EXPECT_EQ(third.kills(13.9), (Peers{PeerId(0), PeerId(1)}));
}

TEST(FailureDetector, WhoIsNextInLineIsPingedIfTheLeaderIsSilent) {
  Listener third(2);
  third.hears({1}, 6);
  EXPECT_EQ(third.pinged, std::set{PeerId(1)});
  EXPECT_TRUE(third.kills(6).empty()) << "that is its part";
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
  EXPECT_EQ(leader.kills(3.3).size(), 1u);
  leader.hears({1, 3}, 6.2);
  leader.kills(6.2);
  EXPECT_TRUE(leader.survivors.empty());
  leader.hears({1, 3}, 6.5);
  EXPECT_EQ(leader.kills(6.5), Peers{PeerId(2)}) << "the order is repeated";
  EXPECT_EQ(leader.survivors, Peers{PeerId(2)});
  EXPECT_TRUE(leader.detector.first_seen_to_survive(PeerId(2)));
  EXPECT_FALSE(leader.detector.first_seen_to_survive(PeerId(2)));
}

TEST(FailureDetector, WhoHasAnsweredSinceTheOrderIsForgiven) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.kills(3.3);
  leader.hears({1, 2, 3}, 7);
  leader.kills(7);
  EXPECT_TRUE(leader.survivors.empty());
  leader.hears({1, 3}, 10.5);
  EXPECT_EQ(leader.kills(10.5), Peers{PeerId(2)}) << "a new order";
}

// What it had sent before comes from buffers for as long as they hold something.
TEST(FailureDetector, WhoIsHeardAfterTheOrderButDoesNotAnswerIsNotForgiven) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.kills(3.3);
  for (; leader.now_s < 7;) {
    leader.detector.heard(PeerId(2), leader.now_s);
    leader.hears({1, 3}, leader.now_s + 0.1);
  }
  EXPECT_EQ(leader.kills(7), Peers{PeerId(2)});
}

TEST(FailureDetector, ALeaderThatAnotherHearsIsLeftToLive) {
  Listener next(1);
  next.leader_silent_s = 0.1;
  next.hears({2, 3}, 20);
  EXPECT_TRUE(next.kills(20).empty());
  for (const PeerId asked : {PeerId(2), PeerId(3)}) EXPECT_TRUE(next.pinged.contains(asked));
  next.leader_silent_s = 100;
  next.hears({2, 3}, 24);
  EXPECT_EQ(next.kills(24), Peers{PeerId(0)});
}

// It may be its own links that are cut.
TEST(FailureDetector, WhoHearsNoneOfSeveralKillsNobodyAndWaits) {
  Listener leader(0);
  leader.hears({1, 2, 3}, 1);
  leader.hears({}, 5);
  EXPECT_TRUE(leader.kills(5).empty());
  leader.hears({}, 8.5);
  EXPECT_TRUE(leader.kills(8.5).empty());
  EXPECT_EQ(leader.survivors.size(), 3u) << "it gives up in the end";
  EXPECT_FALSE(leader.detector.first_seen_to_survive(PeerId(2))) << "nobody has tried";
  EXPECT_TRUE(leader.detector.unkillable().empty());
  leader.hears({1}, 12);
  EXPECT_EQ(leader.kills(12), (Peers{PeerId(2), PeerId(3)}));
}

TEST(FailureDetector, WhoHasOneOtherOnlyHasItKilled) {
  Listener leader(0);
  for (const std::int32_t dead : {2, 3}) leader.membership.lost(PeerId(dead));
  leader.detector.watch({PeerId(1)}, 0, false);
  leader.hears({}, 3.5);
  EXPECT_FALSE(leader.kills(3.5).empty());
}

TEST(FailureDetector, OfTwoThatHearEachOtherOneWayOnlyTheOneThatDoesNotHearTheLeaderIsKilled) {
  Listener leader(0);
  const auto says_so_until = [&](double until_s) {
    while (leader.now_s < until_s) {
      leader.detector.heard(PeerId(2), {.you_silent_s = 4}, leader.now_s);
      leader.hears({1, 2, 3}, leader.now_s + 0.1);
    }
  };
  says_so_until(2.9);
  EXPECT_TRUE(leader.kills(2.9).empty()) << "it may not have heard this one yet";
  says_so_until(4);
  EXPECT_EQ(leader.kills(4), Peers{PeerId(2)});
  leader.detector.first_seen_to_survive(PeerId(2));
  EXPECT_TRUE(leader.detector.unkillable().empty()) << "it is heard";
  says_so_until(7.2);
  EXPECT_EQ(leader.kills(7.2), Peers{PeerId(2)}) << "still so";
  leader.hears({1, 2, 3}, 11);
  leader.detector.heard(PeerId(2), {}, 11);
  EXPECT_TRUE(leader.kills(11).empty()) << "healed";
}

// It goes itself.
TEST(FailureDetector, WhereMostDoNotHearTheLeaderItKillsNone) {
  Listener leader(0);
  while (leader.now_s < 6) {
    for (const std::int32_t deaf : {1, 2})
      leader.detector.heard(PeerId(deaf), {.you_silent_s = 4}, leader.now_s);
    leader.hears({1, 2, 3}, leader.now_s + 0.1);
  }
  EXPECT_TRUE(leader.kills(6).empty());
  EXPECT_TRUE(leader.detector.is_not_heard(6));
}

TEST(FailureDetector, AnOrderForALeaderFallsOnceAnotherHearsThatOne) {
  Listener next(1);
  next.hears({2, 3}, 5);
  EXPECT_EQ(next.kills(5), Peers{PeerId(0)});
  next.leader_silent_s = 0.1;
  next.hears({2, 3}, 9);
  EXPECT_TRUE(next.kills(9).empty());
}

TEST(FailureDetector, OrdersForTheDeadAreForgotten) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.kills(3.3);
  leader.membership.lost(PeerId(2));
  leader.hears({1, 3}, 8);
  EXPECT_TRUE(leader.kills(8).empty());
}

TEST(FailureDetector, WhatComesFromAnEventLoopThatStandsStillIsNoSignOfLife) {
  Listener leader(0);
  leader.hears({1, 2, 3}, 1);
  for (int i = 0; i < 2; ++i)
    leader.detector.heard(PeerId(2), {.handled = 5, .oldest_waits_s = 4}, leader.now_s);
  leader.hears({1, 2, 3}, 4.5);
  EXPECT_EQ(leader.kills(4.5), Peers{PeerId(2)});
}

TEST(FailureDetector, WhoIsKnownToSurviveAndIsSilentCannotBeKilled) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.kills(3.3);
  EXPECT_TRUE(leader.detector.unkillable().empty()) << "the order may still be followed";
  leader.detector.first_seen_to_survive(PeerId(2));
  EXPECT_EQ(leader.detector.unkillable(), std::set{PeerId(2)});
  leader.hears({1, 2, 3}, 3.6);
  EXPECT_TRUE(leader.detector.unkillable().empty()) << "it has answered";
}

// It answers for itself.
TEST(FailureDetector, WhoIsHeardButHasACutLinkIsNotAmongThem) {
  Listener leader(0);
  for (double at_s = 1; at_s < 4.7; at_s += 0.2) {
    leader.hears({1, 2, 3}, at_s);
    leader.reports(3, 2, at_s);
  }
  leader.kills(leader.now_s);
  leader.detector.first_seen_to_survive(PeerId(3));
  EXPECT_TRUE(leader.detector.unkillable().empty());
}

// What it says now and then does not show that it works.
TEST(FailureDetector, WhoFallsSilentAgainAtOnceWasSilentAllTheTime) {
  Listener leader(0);
  double longest_s = 0;
  for (double until_s = 60; until_s <= 180; until_s += 60) {
    for (; leader.now_s < until_s;) {
      leader.hears({1, 3}, leader.now_s + 0.2);
      for (const Survivor& survivor : leader.detector.suspect(leader.now_s))
        longest_s = std::max(longest_s, survivor.ordered_s);
    }
    leader.hears({1, 2, 3}, leader.now_s + 0.2);
  }
  EXPECT_GT(longest_s, 120);
}

TEST(FailureDetector, WhoWasHeardForLongIsForgivenAltogether) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.kills(3.3);
  for (; leader.now_s < 60;) {
    leader.hears({1, 2, 3}, leader.now_s + 1);
    leader.kills(leader.now_s);
  }
  double longest_s = 0;
  for (; leader.now_s < 70;) {
    leader.hears({1, 3}, leader.now_s + 0.2);
    for (const Survivor& survivor : leader.detector.suspect(leader.now_s))
      longest_s = std::max(longest_s, survivor.ordered_s);
  }
  EXPECT_GT(longest_s, 3);
  EXPECT_LT(longest_s, 10);
}

// A link of it that is cut for another's sake is no reason.
TEST(FailureDetector, AnOrderOverALinkFallsWithTheReportsOfThatLink) {
  Listener leader(0);
  double at_s = 1;
  for (; at_s < 4.7; at_s += 0.2) {
    leader.hears({1, 2, 3}, at_s);
    leader.reports(3, 2, at_s);
  }
  EXPECT_EQ(leader.kills(leader.now_s), Peers{PeerId(3)});
  Peers killed;
  for (; at_s < 11; at_s += 0.8) {
    leader.hears({1, 2, 3}, at_s);
    leader.reports(1, 3, at_s);  // once in a while: it proves nothing
    for (const Survivor& survivor : leader.detector.suspect(at_s)) killed.push_back(survivor.peer);
  }
  EXPECT_TRUE(killed.empty());
}

TEST(FailureDetector, OfTwoPeersWithACutLinkTheHigherIsKilled) {
  Listener leader(0);
  for (double at_s = 1; at_s < 4.7; at_s += 0.2) {
    leader.hears({1, 2, 3}, at_s);
    leader.reports(2, 3, at_s);
    leader.reports(3, 2, at_s);
  }
  EXPECT_EQ(leader.kills(leader.now_s), Peers{PeerId(3)});
  EXPECT_TRUE(leader.kills(leader.now_s).empty()) << "once";
}

// Of two that live MPI may say to each that the other is gone: what they owe each other never
// comes.
TEST(FailureDetector, WhoIsGoneForThisPeerAloneIsReportedToTheLeader) {
  Listener third(2);
  third.membership.lost(PeerId(3));
  third.detector.forget(PeerId(3));
  third.hears({0}, 1);
  third.kills(1);
  third.hears({0}, 5);
  third.kills(5);
  EXPECT_TRUE(third.reported.empty()) << "the leader may not have heard of a true death";
  third.hears({0}, 6);
  third.kills(6);
  EXPECT_EQ(third.reported, Peers{PeerId(3)});
}

TEST(FailureDetector, TheDeadAreForgotten) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.kills(3.3);
  leader.membership.lost(PeerId(2));
  leader.detector.forget(PeerId(2));
  leader.hears({1, 3}, 9);
  EXPECT_TRUE(leader.kills(9).empty());
  EXPECT_TRUE(leader.survivors.empty());
}

// Its suspicions were wrong: the others were not silent, it was stopped.
TEST(FailureDetector, OrdersMayBeForgotten) {
  Listener leader(0);
  leader.hears({1, 3}, 3.3);
  leader.kills(3.3);
  leader.detector.forget_kill_orders();
  leader.hears({1, 3}, 7);
  leader.kills(7);
  EXPECT_TRUE(leader.survivors.empty());
}

}  // namespace
}  // namespace swarmpi::failure_detector_test
