#include "emulation/peer_placement.hpp"

#include <gtest/gtest.h>

namespace swarmpi::peer_placement_test {
namespace {

using Ranks = std::map<std::int64_t, int>;

TEST(PeerPlacement, PeersOfTheStartAreAtTheirRanks) {
  EXPECT_EQ(place_peers({}, 3).ranks, (Ranks{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(PeerPlacement, ANewcomerTakesTheRankThatHasBeenFreeForLongest) {
  const std::vector<TraceEvent> events = {{1, FaultEvent::kill, 2}, {2, FaultEvent::kill, 0},
                                          {3, FaultEvent::join, 3}, {4, FaultEvent::kill, 3},
                                          {5, FaultEvent::join, 4}, {6, FaultEvent::join, 5}};
  EXPECT_EQ(place_peers(events, 3).ranks, (Ranks{{0, 0}, {1, 1}, {2, 2}, {3, 2}, {4, 0}, {5, 2}}));
}

TEST(PeerPlacement, AKillOfADeadOrUnknownPeerFreesNoRank) {
  const std::vector<TraceEvent> events = {{1, FaultEvent::kill, 1},
                                          {2, FaultEvent::kill, 1},
                                          {3, FaultEvent::kill, 7},
                                          {4, FaultEvent::join, 2},
                                          {5, FaultEvent::join, 3}};
  EXPECT_EQ(place_peers(events, 2).refused, "at 5 s peer 3 joins, and no rank is free");
}

TEST(PeerPlacement, AnIdIsNotUsedAgain) {
  const std::vector<TraceEvent> events = {{1, FaultEvent::kill, 1}, {2, FaultEvent::join, 1}};
  EXPECT_EQ(place_peers(events, 2).refused,
            "at 2 s peer 1 joins, which was there before: newcomers have new ids");
}

}  // namespace
}  // namespace swarmpi::peer_placement_test
