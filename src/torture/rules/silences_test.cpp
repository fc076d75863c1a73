#include "torture/rules/silences.hpp"

#include <gtest/gtest.h>

#include "core/ids.hpp"
#include "protocol/messages/record_port.hpp"

namespace swarmpi::silences_test {
namespace {

const PeerId kPeer(3);
constexpr double kPatienceS = 3;
constexpr double kGiveUpAfterS = 20;

TEST(Silences, OnlySilentPeersAreKilled) {
  Silences silences(kPatienceS, kGiveUpAfterS);
  const std::string broken = "only silent peers are killed: peer 3";
  EXPECT_EQ(silences.kills(10, kPeer), broken);
  silences.expect(kPeer, 10, 15);
  EXPECT_EQ(silences.kills(10.9, kPeer), broken) << "it is silent, but not for long";
  EXPECT_EQ(silences.kills(11.1, kPeer), "");
  EXPECT_EQ(silences.kills(18.2, kPeer), "") << "just now it was";
  EXPECT_EQ(silences.kills(18.4, kPeer), broken);
  EXPECT_NE(silences.kills(12, PeerId(4)), "");
}

TEST(Silences, WhoCannotBeKilledIsWaitedFor) {
  Silences silences(kPatienceS, kGiveUpAfterS);
  silences.ordered(10, kPeer);
  silences.ordered(13, kPeer);
  const Status end = Status::stopped("peer 3 does not answer, and cannot be killed");
  EXPECT_NE(silences.ends(29.9, end), "");
  EXPECT_EQ(silences.ends(30, end), "");
  EXPECT_EQ(silences.ends(11, Status::stopped("somebody asked")), "");
}

TEST(Silences, WhoeverHearsNobodyWaitsForTheOthers) {
  Silences silences(kPatienceS, kGiveUpAfterS);
  const Status end = Status::stopped("this peer hears none of the others: they may continue");
  EXPECT_NE(silences.ends(100, end), "") << "nobody was cut off";
  silences.expect(kPeer, 90, 200);
  EXPECT_NE(silences.ends(109.9, end), "");
  EXPECT_EQ(silences.ends(110, end), "");
  EXPECT_NE(silences.ends(206, end), "") << "it is over";
}

TEST(Silences, NothingIsRepairedAtADeadlineUnlessSomebodyWasSilent) {
  Silences silences(kPatienceS, kGiveUpAfterS);
  const auto repair = [](const std::string& why) {
    return StoreRecord{1, EventRow{.kind = EventKind::repair, .detail = why}};
  };
  const StoreRecord at_a_deadline = repair("at a deadline: 3 microbatches");
  EXPECT_EQ(silences.stores(20, repair("peer 3 died")), "");
  EXPECT_EQ(silences.stores(20, StoreRecord{1, StepRow{}}), "");
  EXPECT_EQ(silences.stores(20, at_a_deadline),
            "no work is lost without a death that was noticed: repairs were planned at a deadline");
  Silences slow(kPatienceS, kGiveUpAfterS);
  slow.expect_slow_work();
  EXPECT_EQ(slow.stores(20, repair("at a deadline: 0 microbatches sent again")), "");
  EXPECT_NE(slow.stores(20, repair("at a deadline: 10 microbatches sent again")), "");
  silences.expect(kPeer, 5, 8);
  EXPECT_EQ(silences.stores(20, at_a_deadline), "") << "others may still wait because of it";
  EXPECT_NE(silences.stores(21, at_a_deadline), "");
  silences.expect(kPeer, 30, 1000);
  EXPECT_EQ(silences.stores(60, at_a_deadline), "");
  silences.died(40, kPeer);
  EXPECT_EQ(silences.stores(50, at_a_deadline), "");
  EXPECT_NE(silences.stores(60, at_a_deadline), "") << "nobody waits for the dead";
}

}  // namespace
}  // namespace swarmpi::silences_test
