#include "torture/rules/population.hpp"

#include <gtest/gtest.h>

#include "core/ids.hpp"
#include "protocol/messages/ending.hpp"

namespace swarmpi::population_test {
namespace {

const PeerId kLeader(0), kOther(1), kThird(2), kNewcomer(7);
const Status kStopped = Status::stopped("asked to stop");
const Status kCutOff = Status::stopped("peer 0 does not answer, and cannot be killed");
const Status kNoRun = Status::failed("there is no run to join");

Population three() { return Population({kLeader, kOther, kThird}); }

TEST(Population, ANewcomerIsAMemberOnceItDoesWhatMembersDo) {
  Population peers({kLeader});
  peers.expect_newcomer(kNewcomer);
  EXPECT_TRUE(peers.lives(kNewcomer));
  EXPECT_EQ(peers.members(), std::vector{kLeader});
  for (int message = 0; message < 2; ++message) peers.admit(kNewcomer);
  EXPECT_EQ(peers.members(), (std::vector{kLeader, kNewcomer}));
  EXPECT_EQ(peers.joined(), 1);
}

TEST(Population, OnlyThoseLeaveWhoWereAsked) {
  Population peers = three();
  peers.ask_to_leave(kThird);
  EXPECT_EQ(peers.leave(kThird), "");
  EXPECT_FALSE(peers.lives(kThird));
  EXPECT_EQ(peers.leave(kOther), "only peers that were asked to leave do so: ");
}

TEST(Population, TheLowestOfTheLivingLeads) {
  Population peers = three();
  EXPECT_TRUE(peers.leads(kLeader));
  peers.died(kLeader);
  EXPECT_TRUE(peers.leads(kOther));
  EXPECT_FALSE(peers.goes_on(kLeader));
}

TEST(Population, AllMembersEndAlike) {
  Population peers = three();
  peers.finished(kLeader, kStopped, true, true);
  peers.finished(kOther, kStopped, true, true);
  EXPECT_EQ(peers.unequal_ends({}), "");
  peers.finished(kThird, Status(), true, true);
  EXPECT_EQ(peers.unequal_ends({}), "peer 2 ended with status 0 (), peer 0 with 3 (asked to stop)");
  EXPECT_EQ(peers.unequal_ends(kThird), "") << "it took up a run whose end could not be stored";
  peers.exclude(kThird);
  EXPECT_EQ(peers.unequal_ends({}), "");
}

TEST(Population, WhoWasToLeadAndWhoseDiskHungHasAReasonOfItsOwn) {
  const auto stopped = [](const char* why) { return Status::stopped(why); };
  Population peers = three();
  peers.finished(kLeader, Status(), true, true);
  peers.finished(kOther,
                 stopped("storage of peer 1 hangs; no other peer can store what the run makes"),
                 true, true);
  EXPECT_EQ(peers.unequal_ends({}), "");
  peers.finished(kThird,
                 stopped("storage of peer 0 hangs; no other peer has shown that it can store"),
                 true, true);
  EXPECT_NE(peers.unequal_ends({}), "") << "a leader has stored that";
}

TEST(Population, ANewcomerThatIsAskedToLeaveBeforeItIsLetInEndsAlone) {
  Population population({PeerId(2)});
  population.expect_newcomer(PeerId(1));
  population.finished(PeerId(1), Status::stopped("asked to leave"), false, false);
  population.finished(PeerId(2), Status(), true, true);
  EXPECT_EQ(population.unequal_ends({}), "");
}

TEST(Population, WhoDiesAsItEndsForItsDiskHasToldNobody) {
  Population peers = three();
  const Status no_disk = Status::stopped("input/output error");
  peers.finished(kLeader, no_disk, false, true);
  peers.died(kLeader);
  peers.finished(kOther, Status(), true, true);
  EXPECT_EQ(peers.unequal_ends({}), "");
  peers.finished(kThird, no_disk, true, true);
  EXPECT_NE(peers.unequal_ends({}), "") << "it lives, and is to tell the others";
}

TEST(Population, WhoLosesItsDiskWhileAllLeaveHasAReasonOfItsOwn) {
  Population peers = three();
  peers.finished(kOther, kStopped, true, true);
  peers.finished(kThird, Status::stopped("input/output error"), true, true);
  EXPECT_EQ(peers.unequal_ends({}), "");
  peers.finished(kLeader, Status::stopped("something else"), true, true);
  EXPECT_NE(peers.unequal_ends({}), "");
}

TEST(Population, WhoLosesItsDiskAndIsNotHeardEndsAlone) {
  Population peers = three();
  peers.finished(kLeader, Status::stopped("input/output error"), false, true);
  for (const PeerId other : {kOther, kThird}) peers.finished(other, Status(), true, true);
  EXPECT_NE(peers.unequal_ends({}), "");
  peers.unheard(kLeader);
  EXPECT_EQ(peers.unequal_ends({}), "");
}

TEST(Population, OfAnEndForALostDiskOnlyThoseHearWhoHearTheLeader) {
  Population peers = three();
  const Status no_disk = Status::stopped("input/output error");
  for (const PeerId hears : {kLeader, kThird}) peers.finished(hears, no_disk, false, true);
  peers.finished(kOther, Status(), true, true);
  EXPECT_NE(peers.unequal_ends({}), "");
  peers.unheard(kLeader);
  EXPECT_EQ(peers.unequal_ends({}), "");
}

TEST(Population, WhoWasCutOffEndsAsItMay) {
  Population peers = three();
  peers.finished(kOther, kCutOff, false, true);
  EXPECT_TRUE(peers.somebody_was_cut_off());
  peers.finished(kLeader, Status(), false, true);
  EXPECT_EQ(peers.unequal_ends({}), "");
  EXPECT_FALSE(peers.is_outsider(kOther));
  peers.finished(kThird, kCutOff, false, true);
  EXPECT_TRUE(peers.is_outsider(kThird)) << "the last one found no run, either";
}

TEST(Population, WhereTheDiskWasLostNobodyNeedKnowOfTheEnd) {
  Population peers = three();
  peers.finished(kOther, Status::stopped("no space left on the device"), false, true);
  peers.finished(kThird, kCutOff, false, true);
  EXPECT_TRUE(peers.is_outsider(kThird));
  EXPECT_FALSE(peers.somebody_was_cut_off());
}

TEST(Population, WhoFindsNoRunIsNoMemberIfNobodyCouldHaveAnswered) {
  Population peers = three();
  peers.finished(kThird, kNoRun, false, true);
  EXPECT_FALSE(peers.is_outsider(kThird));
  peers.finished(kThird, kNoRun, false, false);
  EXPECT_TRUE(peers.is_outsider(kThird));
  peers.finished(kLeader, kCutOff, false, true);
  peers.finished(kOther, kNoRun, false, true);
  EXPECT_TRUE(peers.is_outsider(kOther)) << "peer 0 may have known it";
}

TEST(Population, APeerThatWasDeclaredDeadEndsWithoutHarm) {
  Population peers = three();
  peers.died(kOther);
  const auto ends = [&](const Status& status, const std::optional<EndMessage>& mark) {
    return peers.finished_though_dead(kOther, status, mark ? &*mark : nullptr);
  };
  const EndMessage complete{ExitStatus::good, ""};
  EXPECT_EQ(ends(kStopped, {}), "");
  EXPECT_EQ(ends(Status(), complete), "");
  EXPECT_EQ(ends(Status::failed("another run writes to out"), {}), "");
  EXPECT_EQ(ends(Status::failed("NaN"), complete),
            "a peer that was declared dead ends without harm: NaN");
  EXPECT_NE(ends(Status(), {}), "");
  peers.ask_to_leave(kOther);
  EXPECT_EQ(ends(Status(), {}), "");
}

}  // namespace
}  // namespace swarmpi::population_test
