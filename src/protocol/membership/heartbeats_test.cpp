#include "protocol/membership/heartbeats.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <set>

#include "protocol/membership/beat_period.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"

namespace swarmpi::heartbeats_test {
namespace {

HeartbeatMessage a_beat(PeerId) { return {}; }

// The peers that get a heartbeat at this time.
std::vector<PeerId> sent_to(Heartbeats& heartbeats, double now_s) {
  Outbox outbox;
  heartbeats.beat(now_s, {}, a_beat, outbox);
  std::vector<PeerId> peers;
  for (const Action& action : outbox.take()) peers.push_back(get<Send>(action).to);
  return peers;
}

TEST(Heartbeats, AreSentEveryPeriod) {
  Heartbeats leader(PeerId(0), 0.2, 1.5);
  leader.watch({PeerId(0), PeerId(1), PeerId(2)}, 10, false);
  EXPECT_EQ(sent_to(leader, 10), (std::vector{PeerId(1), PeerId(2)}));
  EXPECT_EQ(sent_to(leader, 10.1), std::vector<PeerId>()) << "not due yet";
  EXPECT_EQ(leader.due_s(), 10.2);
  EXPECT_EQ(sent_to(leader, 10.2).size(), 2u);
}

TEST(Heartbeats, ALargeSwarmSendsThemMoreRarelyButOftenEnoughForSuspicion) {
  const SwarmConfig swarm;
  EXPECT_EQ(beat_period_s(swarm, 2, 3), swarm.heartbeat_s);
  EXPECT_EQ(beat_period_s(swarm, 16, 3), swarm.heartbeat_s);
  EXPECT_DOUBLE_EQ(beat_period_s(swarm, 32, 3), 2 * swarm.heartbeat_s);
  EXPECT_DOUBLE_EQ(beat_period_s(swarm, 10'000, 3), 3.0 / 4);
  SwarmConfig slow;
  slow.heartbeat_s = 2;
  EXPECT_EQ(beat_period_s(slow, 10'000, 3), 2) << "as the deck says, at least";
}

TEST(Heartbeats, ANewPeriodHoldsFromTheNextBeatOn) {
  Heartbeats leader(PeerId(0), 0.2, 1.5);
  leader.watch({PeerId(1)}, 10, false);
  EXPECT_EQ(sent_to(leader, 10).size(), 1u);
  leader.set_period(0.5);
  EXPECT_EQ(leader.due_s(), 10.2);
  EXPECT_EQ(sent_to(leader, 10.2).size(), 1u);
  EXPECT_EQ(leader.due_s(), 10.7);
}

TEST(Heartbeats, APeerThatIsAloneSendsNone) {
  Heartbeats alone(PeerId(0), 0.2, 1.5);
  alone.watch({PeerId(0)}, 1, false);
  EXPECT_FALSE(alone.due_s());
  EXPECT_TRUE(alone.silent(1000, 3).empty());
}

TEST(Heartbeats, APeerThatIsAloneMayPingOthers) {
  Heartbeats alone(PeerId(0), 0.25, 1.5);
  alone.watch({}, 1, true);
  EXPECT_EQ(alone.due_s(), 1);
  Outbox outbox;
  alone.beat(1, {.judged = {PeerId(7)}}, a_beat, outbox);
  EXPECT_EQ(outbox.take().size(), 1u);
  EXPECT_EQ(alone.due_s(), 1.25);
  EXPECT_EQ(alone.silent(5, 3).size(), 1u);
  alone.watch({}, 5, false);
  EXPECT_FALSE(alone.due_s());
  EXPECT_TRUE(alone.silent(9, 3).empty()) << "nobody waits for it any more";
}

TEST(Heartbeats, APeerThatIsNotHeardForThePatienceIsSilent) {
  Heartbeats leader(PeerId(0), 0.2, 1.5);
  leader.watch({PeerId(1), PeerId(2)}, 0, false);
  for (double now_s = 0; now_s < 3.1; now_s += 0.2) {
    leader.heard(PeerId(1), now_s);
    sent_to(leader, now_s);
  }
  EXPECT_TRUE(leader.silent(3.0, 3).empty());
  const auto silent = leader.silent(3.1, 3);
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_EQ(silent[0].peer, PeerId(2));
  EXPECT_TRUE(leader.is_silent(PeerId(2), 3.1, 3));
  EXPECT_FALSE(leader.is_silent(PeerId(1), 3.1, 3));
}

TEST(Heartbeats, TheTimeThatThisPeerWasStoppedDoesNotCount) {
  Heartbeats peer(PeerId(1), 0.2, 1.5);
  peer.watch({PeerId(0)}, 0, false);
  sent_to(peer, 0);
  peer.heard(PeerId(0), 0.1);
  sent_to(peer, 60);  // stopped for a minute: the leader's messages may wait to be read
  EXPECT_TRUE(peer.silent(60, 3).empty());
  EXPECT_TRUE(peer.silent(62, 3).empty());
  EXPECT_EQ(peer.silent(64, 3).size(), 1u) << "silent for longer since";
}

TEST(Heartbeats, AreRegularSinceThisPeerCameLate) {
  Heartbeats peer(PeerId(1), 0.2, 1.5);
  peer.watch({PeerId(0)}, 5, false);
  sent_to(peer, 5);
  sent_to(peer, 5.3);
  EXPECT_EQ(peer.regular_since_s(PeerId(0)), 5);
  EXPECT_FALSE(peer.regular_since_s(PeerId(2)));
  sent_to(peer, 6.5);
  EXPECT_EQ(peer.regular_since_s(PeerId(0)), 5) << "a little late";
  peer.watch({PeerId(0), PeerId(2)}, 7, false);
  EXPECT_EQ(peer.regular_since_s(PeerId(0)), 5);
  EXPECT_EQ(peer.regular_since_s(PeerId(2)), 7);
  sent_to(peer, 60);
  EXPECT_EQ(peer.regular_since_s(PeerId(0)), 60);
}

// All begin with the same view.
TEST(Heartbeats, OfSeveralPeersComeOneAfterTheOther) {
  std::set<double> due_s;
  for (std::int32_t id = 0; id < 20; ++id) {
    Heartbeats peer(PeerId(id), 0.2, 1.5);
    peer.watch({PeerId(20)}, 10, false);
    due_s.insert(*peer.due_s());
  }
  EXPECT_EQ(*due_s.begin(), 10);
  EXPECT_LT(*due_s.rbegin(), 10.2);
  for (auto next = std::next(due_s.begin()); next != due_s.end(); ++next)
    EXPECT_GT(*next - *std::prev(next), 0.5 * 0.2 / 20);
}

// Those that the peer pings with the beat at this time.
std::vector<PeerId> pinged(Heartbeats& peer, double now_s, const Heartbeats::Awaited& awaited) {
  Outbox outbox;
  peer.beat(now_s, awaited, a_beat, outbox);
  std::vector<PeerId> peers;
  for (const Action& action : outbox.take()) {
    const Send& send = get<Send>(action);
    if (holds_alternative<PingMessage>(send.message.body)) peers.push_back(send.to);
  }
  return peers;
}

TEST(Heartbeats, WhoOwesWorkIsPingedOnceItIsSilent) {
  Heartbeats peer(PeerId(0), 0.2, 1.5);
  peer.watch({PeerId(1)}, 0, false);
  const Heartbeats::Awaited awaited{.judged = {}, .owing = {PeerId(1), PeerId(2)}, .quiet_s = 0.75};
  EXPECT_TRUE(pinged(peer, 0, awaited).empty()) << "what it owes may take its time";
  peer.heard(PeerId(2), 0.15);
  for (const double now_s : {0.2, 0.4, 0.6, 0.8}) {
    EXPECT_TRUE(pinged(peer, now_s, awaited).empty()) << now_s;
    EXPECT_EQ(peer.silent_s(PeerId(2), now_s), 0) << "nobody has asked it";
  }
  EXPECT_EQ(pinged(peer, 1, awaited), std::vector{PeerId(2)})
      << "the leader sends heartbeats anyway";
  for (const double now_s : {1.2, 1.4, 1.6}) {
    EXPECT_TRUE(pinged(peer, now_s, awaited).empty()) << "its answer may be on its way";
  }
  EXPECT_EQ(pinged(peer, 1.8, awaited), std::vector{PeerId(2)});
  EXPECT_FALSE(peer.is_silent(PeerId(2), 3.9, 3));
  EXPECT_TRUE(peer.is_silent(PeerId(2), 4.1, 3)) << "since the first ping";
  EXPECT_TRUE(pinged(peer, 4.1, {}).empty());
  EXPECT_FALSE(peer.is_silent(PeerId(2), 9, 3)) << "nobody waits for it any more";
}

TEST(Heartbeats, WhoIsJudgedIsPingedAtOnceAndWithEachBeatWhileItIsSilent) {
  Heartbeats peer(PeerId(0), 0.2, 1.5);
  peer.watch({PeerId(1)}, 0, false);
  const Heartbeats::Awaited awaited{.judged = {PeerId(2)}, .owing = {PeerId(2)}, .quiet_s = 9};
  EXPECT_EQ(pinged(peer, 0, awaited), std::vector{PeerId(2)});
  peer.heard(PeerId(2), 0.15);
  for (const double now_s : {0.2, 0.4, 0.6, 0.8}) {
    EXPECT_TRUE(pinged(peer, now_s, awaited).empty()) << now_s;
  }
  for (const double now_s : {1.0, 1.2, 1.4}) {
    EXPECT_EQ(pinged(peer, now_s, awaited), std::vector{PeerId(2)}) << now_s;
  }
  EXPECT_TRUE(peer.is_silent(PeerId(2), 4.1, 3));
  peer.heard(PeerId(2), 4.2);
  EXPECT_EQ(peer.silent_s(PeerId(2), 4.2), 0);
}

TEST(Heartbeats, TheTimeThatThisPeerWasStoppedDoesNotCountAfterAPing) {
  Heartbeats peer(PeerId(0), 0.2, 1.5);
  peer.watch({PeerId(1)}, 0, false);
  EXPECT_EQ(pinged(peer, 0, {.judged = {PeerId(2)}}), std::vector{PeerId(2)});
  pinged(peer, 60, {.judged = {PeerId(2)}});
  EXPECT_FALSE(peer.is_silent(PeerId(2), 62.7, 3));
  EXPECT_TRUE(peer.is_silent(PeerId(2), 63.3, 3));
}

TEST(Heartbeats, WhoHasNotAnsweredAsOneThatOwesHasNotAsOneThatIsJudged) {
  Heartbeats peer(PeerId(0), 0.2, 1.5);
  peer.watch({PeerId(1)}, 0, false);
  const Heartbeats::Awaited owing{.judged = {}, .owing = {PeerId(2)}, .quiet_s = 0};
  for (int beat = 0; beat < 10; ++beat) pinged(peer, 0.2 * beat, owing);
  EXPECT_EQ(pinged(peer, 2, {.judged = {PeerId(2)}}), std::vector{PeerId(2)});
  EXPECT_DOUBLE_EQ(peer.silent_s(PeerId(2), 2), 2);
}

// A replica of a reduction may have had nothing to say for longer than a leader's patience.
TEST(Heartbeats, WhoWasQuietAndIsWatchedFromNowOnHasTheWholePatience) {
  Heartbeats peer(PeerId(1), 0.2, 1.5);
  peer.watch({PeerId(0)}, 0, false);
  const Heartbeats::Awaited awaited{.judged = {}, .owing = {PeerId(2)}, .quiet_s = 6};
  for (double now_s = 0; now_s < 5; now_s += 0.2) EXPECT_TRUE(pinged(peer, now_s, awaited).empty());
  peer.watch({PeerId(0), PeerId(2)}, 5, false);
  EXPECT_FALSE(peer.is_silent(PeerId(2), 7.9, 3));
  EXPECT_TRUE(peer.is_silent(PeerId(2), 8.1, 3));
}

}  // namespace
}  // namespace swarmpi::heartbeats_test
