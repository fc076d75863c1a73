#include "transport/mpi/peer_directory.hpp"

#include <gtest/gtest.h>

namespace swarmpi::peer_directory_test {
namespace {

constexpr PeerId kFirst{0}, kSecond{1}, kNewcomer{7};

// Two ranks; the newcomer lives at the second.
int endpoint_of(PeerId peer) {
  if (peer == kNewcomer) return 1;
  return peer.value < 2 ? peer.value : -1;
}

TEST(PeerDirectory, APeerIsItsRankAndIsLostWithIt) {
  PeerDirectory directory(0, 2);
  EXPECT_EQ(directory.find(kSecond), 1);
  EXPECT_EQ(directory.mark_lost(1), std::vector{kSecond});
  EXPECT_TRUE(directory.is_lost(1));
  EXPECT_EQ(directory.find(kSecond), -1);
  EXPECT_TRUE(directory.first_report(kSecond));
  EXPECT_FALSE(directory.first_report(kSecond));
}

TEST(PeerDirectory, ANewcomerIsFoundAtTheRankOfAPeerThatHasDied) {
  PeerDirectory directory(0, 2, endpoint_of);
  directory.mark_dead(kSecond);
  EXPECT_EQ(directory.find(kSecond), -1);
  EXPECT_EQ(directory.find(kNewcomer), 1);
  EXPECT_EQ(directory.find(PeerId(9)), -1);
}

TEST(PeerDirectory, ALostRankTakesAlongAllPeersKnownThere) {
  PeerDirectory directory(0, 2, endpoint_of);
  directory.mark_dead(kSecond);
  directory.mark_known(kNewcomer);
  EXPECT_EQ(directory.mark_lost(1), std::vector{kNewcomer});
}

TEST(PeerDirectory, DeathsAreReportedAnewToANewcomerButNotItsOwn) {
  PeerDirectory directory(1, 2, endpoint_of);
  EXPECT_TRUE(directory.first_report(kFirst));
  directory.mark_dead(kSecond);
  directory.clear();
  EXPECT_NE(directory.self(), kSecond) << "orders to kill it are for nobody who lives here";
  directory.admit(kNewcomer);
  EXPECT_EQ(directory.self(), kNewcomer);
  EXPECT_EQ(directory.find(kSecond), -1);
  EXPECT_TRUE(directory.first_report(kFirst));
  EXPECT_TRUE(directory.first_report(kSecond));
  EXPECT_FALSE(directory.first_report(kNewcomer));
}

TEST(PeerDirectory, AllHavePartedWhereEachHasOrIsLost) {
  PeerDirectory directory(0, 3);
  directory.mark_parted(1, false);
  EXPECT_FALSE(directory.all_others_parted());
  directory.mark_lost(2);
  EXPECT_TRUE(directory.all_others_parted());
  EXPECT_FALSE(directory.anybody_saw_the_end());
  directory.mark_parted(0, true);
  EXPECT_TRUE(directory.anybody_saw_the_end());
}

}  // namespace
}  // namespace swarmpi::peer_directory_test
