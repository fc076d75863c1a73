#include "transport/mpi/peer_directory.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

constexpr PeerId kFirst{0}, kSecond{1}, kNewcomer{7};

// Two ranks; who comes later lives at the second.
int place(PeerId peer) {
  if (peer == kNewcomer) return 1;
  return peer.value < 2 ? peer.value : -1;
}

TEST(PeerDirectory, APeerIsItsRankAndIsLostWithIt) {
  PeerDirectory directory(0, 2);
  EXPECT_EQ(directory.reach(kSecond), 1);
  EXPECT_EQ(directory.lose(1), std::vector{kSecond});
  EXPECT_TRUE(directory.lost(1));
  EXPECT_EQ(directory.reach(kSecond), -1);
  EXPECT_TRUE(directory.must_hear_of(kSecond));
  EXPECT_FALSE(directory.must_hear_of(kSecond));
}

TEST(PeerDirectory, WhoCameLaterIsFoundWhereSomebodyHasDied) {
  PeerDirectory directory(0, 2, place);
  directory.mark_dead(kSecond);
  EXPECT_EQ(directory.reach(kSecond), -1);
  EXPECT_EQ(directory.reach(kNewcomer), 1);
  EXPECT_EQ(directory.reach(PeerId(9)), -1);
}

TEST(PeerDirectory, ARankTakesAllAlongWhoWereHeardThere) {
  PeerDirectory directory(0, 2, place);
  directory.mark_dead(kSecond);
  directory.heard(kNewcomer);
  EXPECT_EQ(directory.lose(1), std::vector{kNewcomer});
}

TEST(PeerDirectory, ANewcomerHearsOfTheDeadAnewAndNotOfItself) {
  PeerDirectory directory(1, 2, place);
  EXPECT_TRUE(directory.must_hear_of(kFirst));
  directory.mark_dead(kSecond);
  directory.vacate();
  directory.admit(kNewcomer);
  EXPECT_EQ(directory.self(), kNewcomer);
  EXPECT_EQ(directory.reach(kSecond), -1);
  EXPECT_TRUE(directory.must_hear_of(kFirst));
  EXPECT_TRUE(directory.must_hear_of(kSecond));
  EXPECT_FALSE(directory.must_hear_of(kNewcomer));
}

TEST(PeerDirectory, NobodyIsWaitedForWhoHasPartedOrIsLost) {
  PeerDirectory directory(0, 3);
  directory.parted(1, false);
  EXPECT_FALSE(directory.all_others_parted());
  directory.lose(2);
  EXPECT_TRUE(directory.all_others_parted());
  EXPECT_FALSE(directory.anybody_saw_the_end());
  directory.parted(0, true);
  EXPECT_TRUE(directory.anybody_saw_the_end());
}

}  // namespace
}  // namespace swarmpi
