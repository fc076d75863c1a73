#include "protocol/membership/peer_end.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

TEST(PeerEnd, EachLeaderIsToldThatThisPeerIsToStopOrHasFailed) {
  PeerEnd end;
  Outbox outbox;
  end.tell(PeerId(0), outbox);
  EXPECT_TRUE(outbox.take().empty());
  end.stop_asked("a signal");
  end.failed(Status::stopped("no room"));
  for (const std::int32_t leader : {0, 2}) {
    end.tell(PeerId(leader), outbox);
    const Actions told = outbox.take();
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(std::get<Send>(told[0]).to, PeerId(leader));
    EXPECT_EQ(std::get<NoticeMessage>(std::get<Send>(told[0]).message.body).why, "a signal");
    EXPECT_EQ(std::get<FailureMessage>(std::get<Send>(told[1]).message.body).why, "no room");
  }
}

TEST(PeerEnd, WhatWasHeardCountsMoreThanTheFailureHere) {
  PeerEnd end;
  EXPECT_FALSE(end.known());
  end.failed(Status::stopped("no room"));
  EXPECT_EQ(end.known()->message(), "no room");
  end.heard(EndMessage{ExitStatus::good, ""});
  EXPECT_TRUE(end.known()->ok());
  EXPECT_TRUE(end.as_heard().ok());
}

TEST(PeerEnd, APeerThatHasHeardNothingFoundNoRun) {
  EXPECT_EQ(PeerEnd().as_heard().code(), ExitStatus::stopped);
}

TEST(PeerEnd, FinishesOnce) {
  PeerEnd end;
  EXPECT_TRUE(end.finish(Status()));
  EXPECT_FALSE(end.finish(Status::stopped("late")));
  EXPECT_TRUE(end.finished()->ok());
}

}  // namespace
}  // namespace swarmpi
