#include "protocol/membership/suspension.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/ending.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi::suspension_test {
namespace {

Event message(MessageBody body) {
  return MessageArrived{PeerId(0), {Incarnation(), ViewNumber(), std::move(body)}};
}

TEST(Suspension, IsDueIfTheTimerComesLaterThanThePatience) {
  Suspension suspension(3, 120);
  EXPECT_FALSE(suspension.is_due(60, std::nullopt)) << "no timer is set";
  EXPECT_FALSE(suspension.is_due(13, 10));
  EXPECT_TRUE(suspension.is_due(13.1, 10));
}

TEST(Suspension, IsDueAgainOnlyIfItLastsForLong) {
  Suspension suspension(3, 120);
  suspension.begin(20);
  EXPECT_FALSE(suspension.is_due(23, 10));
  EXPECT_TRUE(suspension.is_due(24, 20.2));
}

TEST(Suspension, HoldsAllButWhatMayEndIt) {
  Suspension suspension(3, 120);
  const Event exit = message(ExitMessage{});
  EXPECT_FALSE(suspension.holds(exit));
  suspension.begin(20);
  EXPECT_TRUE(suspension.holds(exit));
  EXPECT_TRUE(suspension.holds(StopRequested{"a signal"}));
  for (const Event& event :
       {message(PingMessage{1}), message(PongMessage{1}), message(FencedMessage{}),
        Event(PeerLost{PeerId(2)}), Event(TimerDue{})}) {
    EXPECT_FALSE(suspension.holds(event));
  }
}

TEST(Suspension, AnAnswerToALaterPingEndsItAndGivesWhatWasHeld) {
  Suspension suspension(3, 120);
  suspension.begin(20);
  suspension.hold(message(ExitMessage{}));
  EXPECT_TRUE(suspension.answered(19.9).empty()) << "to a ping before this peer was stopped";
  EXPECT_TRUE(suspension.active());
  EXPECT_EQ(suspension.answered(20).size(), 1u);
  EXPECT_FALSE(suspension.active());
  EXPECT_TRUE(suspension.answered(21).empty());
}

TEST(Suspension, WhatIsHeldStaysIfItBeginsAnew) {
  Suspension suspension(3, 120);
  suspension.begin(20);
  suspension.hold(message(ExitMessage{}));
  suspension.begin(60);
  EXPECT_TRUE(suspension.answered(20.1).empty());
  EXPECT_EQ(suspension.answered(60).size(), 1u);
}

TEST(Suspension, IsHopelessIfNobodyAnswersForAsLongAsTheOthersWait) {
  Suspension suspension(3, 120);
  suspension.begin(20);
  EXPECT_FALSE(suspension.is_hopeless(140));
  EXPECT_TRUE(suspension.is_hopeless(140.1));
}

TEST(Suspension, IsHopelessSoonIfThisPeerIsToStop) {
  Suspension suspension(3, 120);
  suspension.begin(20);
  suspension.hold(StopRequested{"a signal"});
  EXPECT_FALSE(suspension.is_hopeless(23));
  EXPECT_TRUE(suspension.is_hopeless(23.1));
}

}  // namespace
}  // namespace swarmpi::suspension_test
