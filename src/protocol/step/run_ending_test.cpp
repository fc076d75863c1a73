#include "protocol/step/run_ending.hpp"

#include <gtest/gtest.h>

namespace swarmpi::run_ending_test {
namespace {

const PeerId kSelf(0);
const std::vector<PeerId> kOthers{PeerId(1), PeerId(2)};
constexpr double kStopPatienceS = 10;

View three_peers() {
  View view;
  for (const std::int32_t id : {0, 1, 2}) view.add(PeerId(id));
  return view;
}

TEST(RunEnding, AllHearOfItOnceItsMarkIsStoredAndItIsOverWhenAllHaveAnswered) {
  RunEnding end(true);
  EXPECT_EQ(end.state(0), RunEnding::State::running);
  EXPECT_EQ(end.decide(Status())->code, ExitStatus::good);
  EXPECT_EQ(end.state(0), RunEnding::State::decided);
  EXPECT_EQ(end.waiting_for(), "storage: the mark of the run's end");
  EXPECT_EQ(end.announce(three_peers(), kSelf, 1, kStopPatienceS), kOthers);
  EXPECT_TRUE(end.announce(three_peers(), kSelf, 2, kStopPatienceS).empty())
      << "they are told once";
  end.acknowledged(PeerId(2));
  EXPECT_EQ(end.state(1000), RunEnding::State::announced);
  EXPECT_EQ(end.waiting_for(), "acknowledgements of the run's end, from peers 1");
  end.acknowledged(PeerId(1));
  EXPECT_EQ(end.state(1000), RunEnding::State::over);
}

TEST(RunEnding, TheFirstDecisionCounts) {
  RunEnding end(true);
  EXPECT_EQ(end.decide(Status::stopped("SIGTERM"))->why, "SIGTERM");
  EXPECT_FALSE(end.decide(Status::failed("too late")));
  EXPECT_EQ(end.message().code, ExitStatus::stopped);
  EXPECT_EQ(end.message().why, "SIGTERM");
}

TEST(RunEnding, WithoutItsMarkARunDoesNotCountAsComplete) {
  const Status full = Status::stopped("disk full");
  RunEnding complete(true);
  complete.decide(Status());
  complete.storage_failed(full);
  EXPECT_EQ(complete.how().message(), "disk full");
  RunEnding failed(true);
  failed.decide(Status::failed("diverged"));
  failed.storage_failed(full);
  EXPECT_EQ(failed.how().message(), "diverged") << "that was the cause";
  RunEnding running(true);
  running.storage_failed(full);
  EXPECT_EQ(running.state(0), RunEnding::State::decided);
  EXPECT_FALSE(running.decide(Status()));
  running.announce(three_peers(), kSelf, 0, kStopPatienceS);
  running.storage_failed(Status::stopped("again"));
  EXPECT_EQ(running.how().message(), "disk full") << "all have been told";
}

TEST(RunEnding, WhereNobodyKillsTheSilentTheyAreGivenUp) {
  RunEnding end(false);
  end.decide(Status());
  EXPECT_FALSE(end.gives_up_s());
  end.announce(three_peers(), kSelf, 1, kStopPatienceS);
  EXPECT_EQ(end.gives_up_s(), 1 + kPatienceAtTheEndS);
  EXPECT_EQ(end.state(5.9), RunEnding::State::announced);
  EXPECT_EQ(end.state(6), RunEnding::State::over);
}

// Who is heard, and slow, need not be waited for: the mark is durable.
TEST(RunEnding, AStopWaitsForNoAcknowledgementForEver) {
  RunEnding end(true);
  end.request_stop("SIGTERM");
  end.decide(Status::stopped("SIGTERM"));
  end.announce(three_peers(), kSelf, 1, kStopPatienceS);
  EXPECT_EQ(end.state(10.9), RunEnding::State::announced);
  EXPECT_EQ(end.gives_up_s(), 11);
  EXPECT_EQ(end.state(11), RunEnding::State::over);
}

TEST(RunEnding, APeerThatCannotBeReachedIsToldButNotWaitedFor) {
  RunEnding end(true);
  end.decide(Status::stopped("peer 1 does not answer"));
  end.unreachable(PeerId(1));
  EXPECT_EQ(end.announce(three_peers(), kSelf, 0, kStopPatienceS), kOthers);
  end.unreachable(PeerId(2));
  EXPECT_EQ(end.state(0), RunEnding::State::over);
}

}  // namespace
}  // namespace swarmpi::run_ending_test
