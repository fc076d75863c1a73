#include "protocol/membership/heartbeat_words.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "protocol/messages/liveness.hpp"

namespace swarmpi::heartbeat_words_test {
namespace {

const PeerId kOther(1);

// Heartbeats come every 0.2 s; the leader's patience is 3 s.
struct Words : HeartbeatWords {
  Words() : HeartbeatWords(0.2, 3) {}
  void say(const HeartbeatMessage& beat, double from_s, double to_s,
           std::optional<double> regular_since_s = 0) {
    for (double now_s = from_s; now_s < to_s; now_s += 0.2)
      came(kOther, beat, now_s, regular_since_s);
  }
};

TEST(HeartbeatWords, AnEventLoopWhoseEventsWaitWhileItHandlesNoneStandsStill) {
  Words words;
  EXPECT_FALSE(words.stands_still(kOther));
  words.say({.handled = 7, .oldest_waits_s = 2}, 10, 11);
  EXPECT_FALSE(words.stands_still(kOther)) << "not for longer than the patience";
  words.say({.handled = 7, .oldest_waits_s = 4}, 11, 12);
  EXPECT_TRUE(words.stands_still(kOther));
  words.say({.handled = 8, .oldest_waits_s = 5}, 12, 12.1);
  EXPECT_FALSE(words.stands_still(kOther)) << "it is slow";
  words.say({.handled = 8, .oldest_waits_s = 0}, 13, 14);
  EXPECT_FALSE(words.stands_still(kOther)) << "it has nothing to do";
}

TEST(HeartbeatWords, APeerHearsTheLeaderThatHasHeardItWithinTheLeadersPatience) {
  Words words;
  const PeerId leader(0);
  EXPECT_FALSE(words.hears(kOther, leader, 10)) << "it has said nothing";
  words.say({.leader = leader, .leader_silent_s = 1}, 10, 10.1);
  EXPECT_TRUE(words.hears(kOther, leader, 11.9));
  EXPECT_FALSE(words.hears(kOther, leader, 12.1)) << "since then it has said nothing";
  EXPECT_FALSE(words.hears(kOther, PeerId(2), 11)) << "it takes another for the leader";
}

TEST(HeartbeatWords, APeerIsDeafThatSaysForTwoPeriodsThatItDoesNotHearThisOne) {
  Words words;
  words.say({.you_silent_s = 2}, 10, 12);
  EXPECT_TRUE(words.deaf(12).empty());
  words.say({.you_silent_s = 4}, 12, 12.1);
  EXPECT_TRUE(words.deaf(12.1).empty()) << "once";
  words.say({.you_silent_s = 4}, 12.2, 12.9);
  EXPECT_EQ(words.deaf(12.9), std::set{kOther});
  EXPECT_TRUE(words.deaf(14).empty()) << "it says nothing any more";
  words.say({.you_silent_s = 0}, 14, 14.1);
  words.say({.you_silent_s = 4}, 14.2, 14.3);
  EXPECT_TRUE(words.deaf(14.3).empty()) << "it has heard this one meanwhile";
}

TEST(HeartbeatWords, WhoIsSentNoHeartbeatsIsNotDeaf) {
  Words words;
  words.say({.you_silent_s = 40}, 10, 20, std::nullopt);
  EXPECT_TRUE(words.deaf(20).empty());
}

// This peer was stopped: what it sends again takes its time, and what it reads may be old.
TEST(HeartbeatWords, WhoDoesNotHearAPeerThatWasLateIsNotDeaf) {
  Words words;
  words.say({.you_silent_s = 4}, 10, 12.9, 10);
  EXPECT_TRUE(words.deaf(12.9).empty());
  words.say({.you_silent_s = 4}, 13.1, 14, 10);
  EXPECT_FALSE(words.deaf(14).empty());
}

TEST(HeartbeatWords, TheDeadAreForgotten) {
  Words words;
  words.say({.you_silent_s = 4}, 10, 11);
  words.forget(kOther);
  EXPECT_TRUE(words.deaf(11).empty());
}

}  // namespace
}  // namespace swarmpi::heartbeat_words_test
