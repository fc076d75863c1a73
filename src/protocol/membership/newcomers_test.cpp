#include "protocol/membership/newcomers.hpp"

#include <gtest/gtest.h>

namespace swarmpi::newcomers_test {
namespace {

constexpr PeerId kNewcomer{4};

// There are to be three peers.
TEST(Newcomers, OneIsDueAfterAPauseWhereAPeerIsMissing) {
  Newcomers newcomers(3, 0);
  EXPECT_FALSE(newcomers.due(3, 9)) << "nobody is missing";
  newcomers.lost(PeerId(1), 10);
  EXPECT_FALSE(newcomers.due(2, 10.2)) << "others may die with it";
  EXPECT_TRUE(newcomers.due(2, 10.25));
  newcomers.lost(PeerId(2), 10.25);
  EXPECT_FALSE(newcomers.due(1, 10.4));
  EXPECT_TRUE(newcomers.due(1, 10.5));
}

TEST(Newcomers, AreStartedOneAtATime) {
  Newcomers newcomers(3, 0);
  newcomers.spawning();
  EXPECT_FALSE(newcomers.due(1, 100)) << "one is being started";
  newcomers.spawned(kNewcomer, 100);
  EXPECT_TRUE(newcomers.due(1, 100)) << "another is missing";
  EXPECT_FALSE(newcomers.due(2, 100)) << "that one is on its way";
  newcomers.joined(kNewcomer);
  EXPECT_FALSE(newcomers.due(3, 100)) << "it stays";
}

TEST(Newcomers, AfterEachFailureTheNextWaitsTwiceAsLong) {
  Newcomers newcomers(3, 0);
  double now_s = 10;
  for (const double pause_s : {2, 4, 8, 16, 32, 64, 128, 256, 256}) {
    newcomers.spawning();
    newcomers.failed(now_s);
    EXPECT_FALSE(newcomers.due(2, now_s + pause_s - 0.1)) << pause_s;
    now_s += pause_s;
    EXPECT_TRUE(newcomers.due(2, now_s)) << pause_s;
  }
  newcomers.spawned(kNewcomer, now_s);
  newcomers.joined(kNewcomer);
  newcomers.failed(now_s);
  EXPECT_TRUE(newcomers.due(2, now_s + 2)) << "one that joins makes up for all failures";
}

TEST(Newcomers, OneThatDiesOnItsWayIsAFailure) {
  Newcomers newcomers(3, 0);
  newcomers.spawned(kNewcomer, 10);
  newcomers.lost(kNewcomer, 11);
  EXPECT_FALSE(newcomers.due(2, 12.9));
  EXPECT_TRUE(newcomers.due(2, 13));
}

TEST(Newcomers, OneThatDiesAfterItHasJoinedIsNoFailure) {
  Newcomers newcomers(3, 0);
  newcomers.spawned(kNewcomer, 10);
  newcomers.joined(kNewcomer);
  newcomers.lost(kNewcomer, 11);
  EXPECT_TRUE(newcomers.due(2, 11.25));
}

TEST(Newcomers, OneThatDoesNotJoinInTimeIsGivenUpOnce) {
  Newcomers newcomers(3, 0);
  newcomers.spawned(kNewcomer, 10);
  newcomers.give_up_late(10 + kPatienceForNewcomersS);
  EXPECT_FALSE(newcomers.due(2, 10 + kPatienceForNewcomersS));
  newcomers.give_up_late(131);
  EXPECT_FALSE(newcomers.due(2, 132.9)) << "a failure";
  newcomers.give_up_late(132.9);
  EXPECT_TRUE(newcomers.due(2, 133));
}

}  // namespace
}  // namespace swarmpi::newcomers_test
