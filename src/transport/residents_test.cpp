#include "transport/residents.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

constexpr PeerId kFirst{0}, kSecond{1}, kNewcomer{7};

// Two ranks; who comes later lives at the second.
int place(PeerId peer) {
  if (peer == kNewcomer) return 1;
  return peer.value < 2 ? peer.value : -1;
}

TEST(Residents, APeerIsItsRankAndIsLostWithIt) {
  Residents residents(0, 2);
  EXPECT_EQ(residents.reach(kSecond), 1);
  EXPECT_EQ(residents.lose(1), std::vector{kSecond});
  EXPECT_TRUE(residents.lost(1));
  EXPECT_EQ(residents.reach(kSecond), -1);
  EXPECT_TRUE(residents.must_hear_of(kSecond));
  EXPECT_FALSE(residents.must_hear_of(kSecond));
}

TEST(Residents, WhoCameLaterIsFoundWhereSomebodyHasDied) {
  Residents residents(0, 2, place);
  residents.bury(kSecond);
  EXPECT_EQ(residents.reach(kSecond), -1);
  EXPECT_EQ(residents.reach(kNewcomer), 1);
  EXPECT_EQ(residents.reach(PeerId(9)), -1);
}

TEST(Residents, ARankTakesAllAlongWhoWereHeardThere) {
  Residents residents(0, 2, place);
  residents.bury(kSecond);
  residents.heard(kNewcomer);
  EXPECT_EQ(residents.lose(1), std::vector{kNewcomer});
}

TEST(Residents, ANewcomerHearsOfTheDeadAnewAndNotOfItself) {
  Residents residents(1, 2, place);
  EXPECT_TRUE(residents.must_hear_of(kFirst));
  residents.bury(kSecond);
  residents.vacate();
  residents.settle(kNewcomer);
  EXPECT_EQ(residents.self(), kNewcomer);
  EXPECT_EQ(residents.reach(kSecond), -1);
  EXPECT_TRUE(residents.must_hear_of(kFirst));
  EXPECT_TRUE(residents.must_hear_of(kSecond));
  EXPECT_FALSE(residents.must_hear_of(kNewcomer));
}

TEST(Residents, NobodyIsWaitedForWhoHasPartedOrIsLost) {
  Residents residents(0, 3);
  residents.parted(1, false);
  EXPECT_FALSE(residents.all_others_parted());
  residents.lose(2);
  EXPECT_TRUE(residents.all_others_parted());
  EXPECT_FALSE(residents.anybody_saw_the_end());
  residents.parted(0, true);
  EXPECT_TRUE(residents.anybody_saw_the_end());
}

}  // namespace
}  // namespace swarmpi
