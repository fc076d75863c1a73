#include "transport/nccl/collective.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/clock.hpp"
#include "transport/nccl/fake_engine_test.hpp"

namespace swarmpi::collective_test {
namespace {

using Outcome = CollectiveProgress::Outcome;
using Values = std::vector<std::int64_t>;

// Of calls, as FakeTroubles counts them. Pieces of the reductions below have four numbers.
constexpr int kFirstPiece = 2;
constexpr std::int64_t kPieceNumbers = 4;

template <class Condition>
bool eventually(const Condition& condition) {
  const WallClock clock;
  while (clock.now_s() < 10) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

CollectiveProgress outcome_of(Collective& collective) {
  CollectiveProgress progress;
  eventually([&] {
    progress = collective.poll();
    return progress.outcome != Outcome::nothing;
  });
  return progress;
}

// Deadlines that no test waits for, but for those that shorten them.
CollectiveLimits patient() {
  CollectiveLimits limits;
  limits.making_s = limits.entering_s = limits.piece_s = limits.call_s = limits.abort_s = 60;
  limits.piece_bytes = 8 * kPieceNumbers;
  return limits;
}

// Ten numbers of one replica: three pieces.
struct Sums {
  explicit Sums(std::int64_t first, Cover of = {3, 30}) : cover(of) {
    std::iota(in.begin(), in.end(), first);
  }
  SumRequest request(std::uint64_t ticket = 77) {
    SumRequest request;
    request.in = in.data();
    request.out = out.data();
    request.count = static_cast<std::int64_t>(in.size());
    request.cover = cover;
    request.ticket = ticket;
    return request;
  }
  Values in = Values(10);
  Values out = Values(10, -1);
  Cover cover;
};

class CollectiveTest : public testing::Test {
 protected:
  Collective& join(int place, int size, const FakeTroubles& troubles = {},
                   const CollectiveLimits& limits = patient()) {
    {
      const std::lock_guard lock(group_->mutex);
      group_->size = size;
    }
    CommunicatorPlan plan;
    plan.place = place;
    plan.size = size;
    members_.push_back(
        std::make_unique<Collective>(std::make_unique<FakeEngine>(group_, troubles), plan, limits));
    return *members_.back();
  }
  static bool ready(Collective& member) {
    return eventually([&] { return member.is_ready(); });
  }

  std::shared_ptr<FakeGroup> group_ = std::make_shared<FakeGroup>();
  std::vector<std::unique_ptr<Collective>> members_;
};

TEST_F(CollectiveTest, ReplicasGetTheExactSumsAndTheCoverOfAllAndKeepTheirOwn) {
  Collective& a = join(0, 2);
  Collective& b = join(1, 2);
  ASSERT_TRUE(ready(a) && ready(b));
  Sums of_a(100, {3, 30});
  Sums of_b(-5000, {5, ~std::uint64_t{0}});
  const Values before = of_a.in;
  a.start(of_a.request());
  b.start(of_b.request());
  for (Collective* member : {&a, &b}) {
    const CollectiveProgress progress = outcome_of(*member);
    EXPECT_EQ(progress.outcome, Outcome::done) << progress.why;
    EXPECT_EQ(progress.cover, (Cover{8, 29}));  // mod 2^64
    EXPECT_TRUE(member->is_ready());
    EXPECT_FALSE(member->holds_sums());
    EXPECT_EQ(member->times().pieces, 3);
  }
  Values expected(10);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = of_a.in[i] + of_b.in[i];
  EXPECT_EQ(of_a.out, expected);
  EXPECT_EQ(of_b.out, expected);
  EXPECT_EQ(of_a.in, before);
}

TEST_F(CollectiveTest, OneReductionFollowsAnother) {
  Collective& alone = join(0, 1);
  ASSERT_TRUE(ready(alone));
  for (std::uint64_t seal = 1; seal <= 3; ++seal) {
    Sums sums(static_cast<std::int64_t>(seal));
    alone.start(sums.request(seal));
    EXPECT_EQ(outcome_of(alone).outcome, Outcome::done);
    EXPECT_EQ(sums.out, sums.in);
  }
}

TEST_F(CollectiveTest, WhereAReplicaNeverJoinsTheOthersGiveUpAtTheDeadline) {
  CollectiveLimits limits = patient();
  limits.making_s = 0.05;
  Collective& a = join(0, 3, {}, limits);
  const CollectiveProgress progress = outcome_of(a);
  EXPECT_EQ(progress.outcome, Outcome::failed);
  EXPECT_EQ(a.state(), CollectiveState::aborted);
  EXPECT_NE(progress.why.find("communicator of 3 replicas: not all have joined"), std::string::npos)
      << progress.why;
  EXPECT_TRUE(eventually([&] { return a.over(); }));
  EXPECT_TRUE(group_->aborted.contains(0));
}

TEST_F(CollectiveTest, WhereAReplicaNeverEntersTheOtherAbortsAndItsSumsAreWhole) {
  CollectiveLimits limits = patient();
  limits.entering_s = 0.05;
  Collective& a = join(0, 2, {}, limits);
  Collective& b = join(1, 2);
  ASSERT_TRUE(ready(a) && ready(b));
  Sums of_a(100);
  const Values before = of_a.in;
  a.start(of_a.request());
  const CollectiveProgress progress = outcome_of(a);
  EXPECT_EQ(progress.outcome, Outcome::failed);
  EXPECT_NE(progress.why.find("replica 0 of 2 has waited 0.1 s for piece 1 of 3 of the sums"),
            std::string::npos)
      << progress.why;
  EXPECT_TRUE(eventually([&] { return !a.holds_sums(); }));
  EXPECT_EQ(of_a.in, before);
}

TEST_F(CollectiveTest, ASuccessThatIsReportedAfterAnAbortDoesNotCount) {
  FakeTroubles late;
  const auto gate = std::make_shared<Gate>();
  late.event_stays[kFirstPiece + 3] = gate;  // all pieces are through, and all have said so
  Collective& a = join(0, 1, late);
  ASSERT_TRUE(ready(a));
  Sums sums(1);
  a.start(sums.request());
  gate->wait_until_reached();
  a.abort("replica 1 has died");
  gate->open();
  ASSERT_TRUE(eventually([&] { return a.over(); }));
  const CollectiveProgress progress = a.poll();
  EXPECT_EQ(progress.outcome, Outcome::failed);
  EXPECT_EQ(progress.why, "replica 1 has died");
  EXPECT_EQ(a.poll().outcome, Outcome::nothing);
  EXPECT_EQ(a.state(), CollectiveState::aborted);
}

TEST_F(CollectiveTest, ASuccessThatNobodyHasPolledBeforeTheAbortDoesNotCount) {
  Collective& a = join(0, 1);
  ASSERT_TRUE(ready(a));
  Sums sums(1);
  a.start(sums.request());
  ASSERT_TRUE(ready(a));  // again: the reduction is done
  a.abort("the seal is void");
  EXPECT_EQ(a.poll().outcome, Outcome::failed);
}

TEST_F(CollectiveTest, TheAbortOfOneReplicaIsNoSuccessOfTheOtherThoughItLooksLikeOne) {
  group_->aborts_look_like_success = true;
  FakeTroubles hangs;
  const auto gate = std::make_shared<Gate>();
  hangs.enter_stays[kFirstPiece + 1] = gate;  // of three pieces the second
  Collective& a = join(0, 2, hangs);
  Collective& b = join(1, 2);
  ASSERT_TRUE(ready(a) && ready(b));
  Sums of_a(100);
  Sums of_b(100);
  b.start(of_b.request());
  a.start(of_a.request());
  gate->wait_until_reached();
  a.abort("its deadline is over");
  gate->open();
  const CollectiveProgress progress = outcome_of(b);
  EXPECT_EQ(progress.outcome, Outcome::failed);
  EXPECT_NE(progress.why.find("over other microbatches"), std::string::npos) << progress.why;
}

// The mark of a piece may be through while its sums are not: it says that all have entered.
TEST_F(CollectiveTest, WhereAllHaveEnteredAndOneAbortsTheOthersMissItsWordAtTheEnd) {
  group_->aborts_look_like_success = true;
  FakeTroubles hangs;
  const auto gate = std::make_shared<Gate>();
  hangs.event_stays[kFirstPiece + 2] = gate;  // in its last piece
  Collective& a = join(0, 2, hangs);
  Collective& b = join(1, 2);
  ASSERT_TRUE(ready(a) && ready(b));
  Sums of_a(100);
  Sums of_b(100);
  a.start(of_a.request());
  b.start(of_b.request());
  gate->wait_until_reached();
  a.abort("its deadline is over");
  gate->open();
  const CollectiveProgress progress = outcome_of(b);
  EXPECT_EQ(progress.outcome, Outcome::failed);
  EXPECT_NE(progress.why.find("not all replicas have said that their sums"), std::string::npos)
      << progress.why;
}

TEST_F(CollectiveTest, ReplicasThatReduceDifferentSealsGetNoResult) {
  Collective& a = join(0, 2);
  Collective& b = join(1, 2);
  ASSERT_TRUE(ready(a) && ready(b));
  Sums of_a(100);
  Sums of_b(100);
  a.start(of_a.request(7));
  b.start(of_b.request(8));
  EXPECT_EQ(outcome_of(a).outcome, Outcome::failed);
  EXPECT_EQ(outcome_of(b).outcome, Outcome::failed);
}

TEST_F(CollectiveTest, AnErrorThatStandsWhenTheEventHasFiredVoidsTheResult) {
  FakeTroubles troubles;
  troubles.error_from = kFirstPiece + 2;
  Collective& a = join(0, 1, troubles);
  ASSERT_TRUE(ready(a));
  Sums sums(1);
  a.start(sums.request());
  const CollectiveProgress progress = outcome_of(a);
  EXPECT_EQ(progress.outcome, Outcome::failed);
  EXPECT_EQ(a.state(), CollectiveState::failed);
  EXPECT_NE(progress.why.find("piece 3 of 3 of the sums: remote process exited"), std::string::npos)
      << progress.why;
  EXPECT_FALSE(a.device_lost());
}

TEST_F(CollectiveTest, AnErrorBetweenReductionsIsToldAndNothingStartsAfterIt) {
  FakeTroubles troubles;
  troubles.error_from = kFirstPiece + 3;  // with the last word of the reduction
  troubles.device_is_lost = true;
  Collective& a = join(0, 1, troubles);
  ASSERT_TRUE(ready(a));
  Sums sums(1);
  a.start(sums.request());
  EXPECT_EQ(outcome_of(a).outcome, Outcome::failed);
  EXPECT_TRUE(a.device_lost());
  Sums more(1);
  a.start(more.request());
  EXPECT_EQ(more.out, Values(10, -1));
  EXPECT_EQ(a.poll().outcome, Outcome::nothing);  // it was told
}

TEST_F(CollectiveTest, TheDeathOfAReplicaShowsBeforeAnythingIsReduced) {
  FakeTroubles troubles;
  troubles.error_from = 1;
  Collective& a = join(0, 1, troubles);
  EXPECT_EQ(outcome_of(a).outcome, Outcome::failed);
  EXPECT_EQ(a.state(), CollectiveState::failed);
}

TEST_F(CollectiveTest, AnAbortThatBlocksIsLeftBehindWithTheMemoryItMayWriteTo) {
  FakeTroubles troubles;
  const auto event_gate = std::make_shared<Gate>();
  troubles.event_stays[kFirstPiece] = event_gate;
  troubles.abort_stays = std::make_shared<Gate>();
  CollectiveLimits limits = patient();
  limits.abort_s = 0.05;
  Collective& a = join(0, 1, troubles, limits);
  ASSERT_TRUE(ready(a));
  Sums sums(1);
  auto keep = std::make_shared<int>(0);
  SumRequest request = sums.request();
  request.keep = keep;
  a.start(request);
  request.keep.reset();
  event_gate->wait_until_reached();
  a.abort("replica 1 has died");
  event_gate->open();
  EXPECT_EQ(outcome_of(a).why, "replica 1 has died");
  const CollectiveProgress notice = outcome_of(a);
  EXPECT_EQ(notice.outcome, Outcome::left_behind);
  EXPECT_NE(notice.why.find("a call of NCCL for the abort has not come back for"),
            std::string::npos)
      << notice.why;
  EXPECT_TRUE(a.left_behind());
  EXPECT_TRUE(a.holds_sums());
  members_.clear();  // does not wait
  EXPECT_EQ(keep.use_count(), 2);
  troubles.abort_stays->open();
  EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }));
}

TEST_F(CollectiveTest, ACallThatDoesNotComeBackIsLeftBehindAndTheRunGoesOn) {
  FakeTroubles troubles;
  const auto gate = std::make_shared<Gate>();
  troubles.enter_stays[kFirstPiece + 1] = gate;
  CollectiveLimits limits = patient();
  limits.call_s = 0.05;
  Collective& a = join(0, 1, troubles, limits);
  ASSERT_TRUE(ready(a));
  Sums sums(1);
  a.start(sums.request());
  const CollectiveProgress progress = outcome_of(a);
  EXPECT_EQ(progress.outcome, Outcome::failed);
  EXPECT_EQ(a.state(), CollectiveState::aborted);
  EXPECT_NE(progress.why.find("piece 2 of 3 of the sums has not come back"), std::string::npos)
      << progress.why;
  EXPECT_EQ(a.poll().outcome, Outcome::left_behind);
  EXPECT_TRUE(a.left_behind());
  gate->open();  // it comes back after all, and aborts
  EXPECT_TRUE(eventually([&] { return a.over() && !a.left_behind(); }));
  EXPECT_FALSE(a.holds_sums());
}

TEST_F(CollectiveTest, ItsEndWaitsForTheThreadAndSaysWhetherItIsOver) {
  FakeTroubles troubles;
  troubles.abort_stays = std::make_shared<Gate>();
  Collective& hangs = join(0, 2, troubles);
  Collective& well = join(1, 2);
  ASSERT_TRUE(ready(hangs) && ready(well));
  EXPECT_TRUE(well.end(10));
  EXPECT_FALSE(hangs.end(0.05));
  troubles.abort_stays->open();
  EXPECT_TRUE(eventually([&] { return hangs.over(); }));
}

TEST_F(CollectiveTest, TheListenerHearsThatItIsReadyAndNothingOnceTheCollectiveIsGone) {
  group_->size = 1;
  FakeTroubles troubles;
  troubles.abort_stays = std::make_shared<Gate>();
  std::atomic<int> heard = 0;
  auto member =
      std::make_unique<Collective>(std::make_unique<FakeEngine>(group_, troubles),
                                   CommunicatorPlan{{}, 1, 0, 0}, patient(), [&] { ++heard; });
  EXPECT_TRUE(eventually([&] { return heard > 0; }));
  EXPECT_TRUE(ready(*member));
  member.reset();
  const int before = heard;
  troubles.abort_stays->open();
  EXPECT_TRUE(eventually([&] { return group_.use_count() == 1; }));  // the thread has ended
  EXPECT_EQ(heard, before);
}

TEST_F(CollectiveTest, OverlappingArraysAreRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Collective& a = join(0, 1);
        if (!ready(a)) return;
        Sums sums(1);
        SumRequest request = sums.request();
        request.out = sums.in.data() + 1;
        a.start(request);
      },
      "out of place");
}

TEST(Collective, WhatIsSaidAtTheEndDiffersFromPlaceToPlaceAndFromSealToSeal) {
  EXPECT_NE(mark_of_end(1, 0), mark_of_end(1, 1));
  EXPECT_NE(mark_of_end(1, 0), mark_of_end(2, 0));
  EXPECT_NE(mark_of_end(1, 0)[0], mark_of_end(1, 0)[1]);
}

}  // namespace
}  // namespace swarmpi::collective_test
