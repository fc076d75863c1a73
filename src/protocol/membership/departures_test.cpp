#include "protocol/membership/departures.hpp"

#include <gtest/gtest.h>

#include "protocol/membership/hearing_test.hpp"

namespace swarmpi::departures_test {
namespace {

using Roles = std::vector<Departures::Role>;

// Peers 0 and 1 serve stage 0, peer 2 alone serves stage 1, peer 3 serves nothing.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
    view.serve(PeerId(2), StageId(1));
    view.add(PeerId(3));
  }
  // These peers depart: they were asked to, and the others were not.
  void depart(const std::vector<std::int32_t>& peers) {
    for (const std::int32_t id : peers) departures.notice(PeerId(id), "preempted", 0);
    departures.begin(view, 1, 1, testing::kAllAreHeard);
  }
  bool hand_over() {
    const auto done = departures.hand_over(
        view, [this](PeerId peer) { return !busy.contains(peer); }, needs);
    gave_way = done.gave_way;
    return done.view_changed;
  }
  // The roles that are over, where steps up to `newest` are open and `committed` is committed.
  Roles drained(std::int64_t newest, std::int64_t committed) {
    return departures.remove_drained(
        view, {Step(newest), Step(committed), agreed.value_or(Step(committed)),
               [this](PeerId peer, StageId) { return writing.contains(peer); }});
  }

  View view;
  Departures departures;
  std::set<PeerId> busy;       // that may not learn
  std::set<PeerId> writing;    // a part of a checkpoint
  std::optional<Step> agreed;  // none: on the committed state
  MemoryNeeds needs;
  Roles gave_way;  // in the last hand_over()
};

// ---- Who was asked to leave

TEST(Departures, ANoticeToAllMembersMeansTheRun) {
  Scene scene;
  for (const std::int32_t id : {2, 0, 1}) {
    scene.departures.notice(PeerId(id), "SIGTERM", 0);
    EXPECT_FALSE(scene.departures.asked_of_all(scene.view, {}));
  }
  scene.departures.notice(PeerId(9), "SIGTERM", 0);
  EXPECT_FALSE(scene.departures.asked_of_all(scene.view, {})) << "peer 9 is no member, peer 3 is";
  scene.departures.notice(PeerId(3), "SIGTERM", 0);
  EXPECT_EQ(scene.departures.asked_of_all(scene.view, {}), "SIGTERM");
}

// Its host is stopped or cut off: what was asked of it cannot be heard.
TEST(Departures, WhomNobodyCanKillCountsAsAsked) {
  Scene scene;
  EXPECT_FALSE(scene.departures.asked_of_all(scene.view, {PeerId(0), PeerId(1)}))
      << "nobody was asked";
  for (const std::int32_t id : {0, 1}) scene.departures.notice(PeerId(id), "SIGUSR1", 0);
  EXPECT_FALSE(scene.departures.asked_of_all(scene.view, {PeerId(2)})) << "peer 3 was not";
  EXPECT_EQ(scene.departures.asked_of_all(scene.view, {PeerId(2), PeerId(3)}), "SIGUSR1");
}

// Its host may be stopped as well: then the run is to stop, and nobody is to leave it.
TEST(Departures, NobodyDepartsBeforeAllOthersWereHeardSinceTheNotice) {
  Scene scene;
  double heard_s = 9.9;  // peer 3
  const Departures::HeardSince heard = [&](PeerId peer, double at_s) {
    return peer != PeerId(3) || heard_s >= at_s;
  };
  scene.departures.notice(PeerId(1), "preempted", 10);
  EXPECT_TRUE(scene.departures.begin(scene.view, 99, 1, heard).empty());
  heard_s = 10.1;
  EXPECT_EQ(scene.departures.begin(scene.view, 99, 1, heard).size(), 1u);
}

// A signal to mpirun reaches the ranks one after another.
TEST(Departures, APeerDepartsOnceTheOthersCouldHaveBeenAskedAsWell) {
  Scene scene;
  scene.departures.notice(PeerId(1), "preempted", 10);
  EXPECT_TRUE(scene.departures.begin(scene.view, 10.9, 1, testing::kAllAreHeard).empty());
  EXPECT_FALSE(scene.departures.departs(PeerId(1)));
  const auto begun = scene.departures.begin(scene.view, 11, 1, testing::kAllAreHeard);
  EXPECT_EQ(begun, (std::vector<std::pair<PeerId, std::string>>{{PeerId(1), "preempted"}}));
  EXPECT_TRUE(scene.departures.departs(PeerId(1)));
  EXPECT_TRUE(scene.departures.begin(scene.view, 12, 1, testing::kAllAreHeard).empty())
      << "said once";
}

// It says so again to each new leader.
TEST(Departures, ANoticeThatComesTwiceCountsFromTheFirst) {
  Scene scene;
  scene.departures.notice(PeerId(1), "preempted", 10);
  scene.departures.notice(PeerId(1), "SIGTERM", 10.8);
  const auto begun = scene.departures.begin(scene.view, 11, 1, testing::kAllAreHeard);
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun.front().second, "preempted");
}

TEST(Departures, WhatWasAskedOfAPeerIsForgottenWithItsDeath) {
  Scene scene;
  scene.depart({1});
  scene.view.remove(PeerId(1));
  scene.departures.lost(PeerId(1));
  EXPECT_FALSE(scene.departures.departs(PeerId(1)));
  EXPECT_TRUE(scene.departures.begin(scene.view, 2, 1, testing::kAllAreHeard).empty());
}

TEST(Departures, ANoticeOfAPeerThatIsNoMemberYetWaitsForIt) {
  Scene scene;
  scene.departures.notice(PeerId(4), "preempted", 0);
  EXPECT_TRUE(scene.departures.begin(scene.view, 5, 1, testing::kAllAreHeard).empty());
  scene.view.add(PeerId(4));
  EXPECT_EQ(scene.departures.begin(scene.view, 5, 1, testing::kAllAreHeard).size(), 1u);
}

TEST(Departures, WhoDepartsIsNotCountedAmongThoseWhoStay) {
  Scene scene;
  EXPECT_EQ(scene.departures.staying(scene.view, StageId(0)), 2);
  EXPECT_EQ(scene.departures.serving(scene.view), 3);
  scene.view.learn(PeerId(3), StageId(1));
  EXPECT_EQ(scene.departures.busy(scene.view), 4) << "who learns is busy";
  scene.depart({1});
  EXPECT_EQ(scene.departures.staying(scene.view, StageId(0)), 1);
  EXPECT_EQ(scene.departures.serving(scene.view), 2);
  EXPECT_EQ(scene.departures.busy(scene.view), 3);
  EXPECT_TRUE(scene.departures.stays_alone(scene.view, PeerId(0), StageId(0)));
  EXPECT_FALSE(scene.departures.stays_alone(scene.view, PeerId(1), StageId(0))) << "it departs";
  EXPECT_FALSE(scene.departures.stays_alone(scene.view, PeerId(2), StageId(0))) << "of stage 1";
}

TEST(Departures, APeerThatLeavesAStageAndTheRunIsCountedOnce) {
  Scene scene;
  scene.view.set_leaving(PeerId(1), StageId(0), true);
  scene.depart({1});
  EXPECT_EQ(scene.departures.staying(scene.view, StageId(0)), 1);
}

// ---- Handing over

TEST(HandingOver, AStageThatOthersServeIsLeft) {
  Scene scene;
  scene.depart({1});
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.leaves(PeerId(1), StageId(0)));
  EXPECT_TRUE(scene.view.learners().empty());
  EXPECT_FALSE(scene.hand_over()) << "nothing new";
}

TEST(HandingOver, AStageThatNobodyElseServesIsLearnedBeforeItIsLeft) {
  Scene scene;
  scene.depart({2});
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(1))) << "by the spare";
  EXPECT_FALSE(scene.view.leaves(PeerId(2), StageId(1)));
  EXPECT_FALSE(scene.hand_over()) << "it learns still";
  scene.view.serve(PeerId(3), StageId(1));
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.leaves(PeerId(2), StageId(1)));
}

TEST(HandingOver, WithoutASpareThePeerThatServesTheFewestStagesLearns) {
  Scene scene;
  scene.view.remove(PeerId(3));
  scene.view.serve(PeerId(0), StageId(2));
  scene.depart({2});
  EXPECT_TRUE(scene.hand_over());
  EXPECT_EQ(scene.view.learners_of(StageId(1)), std::vector{PeerId(1)});
}

TEST(HandingOver, WaitsForOneWhoMayLearn) {
  Scene scene;
  scene.busy = {PeerId(0), PeerId(1), PeerId(3)};
  scene.depart({2});
  EXPECT_FALSE(scene.hand_over());
  scene.busy.erase(PeerId(3));
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(1)));
}

TEST(HandingOver, ASuccessorThatDiesIsReplaced) {
  Scene scene;
  scene.depart({2});
  scene.hand_over();
  scene.view.remove(PeerId(3));
  EXPECT_TRUE(scene.hand_over());
  EXPECT_EQ(scene.view.learners_of(StageId(1)), std::vector{PeerId(0)});
}

TEST(HandingOver, ASuccessorThatIsAskedToLeaveItselfIsReplaced) {
  Scene scene;
  scene.depart({2});
  scene.hand_over();
  scene.depart({3});
  EXPECT_TRUE(scene.hand_over());
  EXPECT_EQ(scene.view.learners_of(StageId(1)), (std::vector{PeerId(0), PeerId(3)}));
}

TEST(HandingOver, IfAllReplicasOfAStageDepartOneSuccessorLearnsIt) {
  Scene scene;
  scene.depart({0, 1});
  EXPECT_TRUE(scene.hand_over());
  EXPECT_EQ(scene.view.learners_of(StageId(0)), std::vector{PeerId(3)});
  EXPECT_TRUE(scene.view.leaving().empty());
  scene.view.serve(PeerId(3), StageId(0));
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.leaves(PeerId(0), StageId(0)));
  EXPECT_TRUE(scene.view.leaves(PeerId(1), StageId(0)));
}

// Peer 0 was to serve stage 1 alone, but now peer 1 is asked to leave the run.
TEST(HandingOver, AReplicaThatWasAboutToMoveStaysInstead) {
  Scene scene;
  scene.view.set_leaving(PeerId(0), StageId(0), true);
  scene.depart({1});
  EXPECT_TRUE(scene.hand_over());
  EXPECT_FALSE(scene.view.leaves(PeerId(0), StageId(0)));
  EXPECT_TRUE(scene.view.learners().empty());
}

TEST(HandingOver, IfThoseWhoStayedDieAllWhoWereLeavingStay) {
  Scene scene;
  scene.view.serve(PeerId(2), StageId(0));
  scene.view.set_leaving(PeerId(0), StageId(0), true);
  scene.view.set_leaving(PeerId(2), StageId(0), true);
  scene.departures.keep_last_replicas(scene.view);
  EXPECT_TRUE(scene.view.leaves(PeerId(0), StageId(0))) << "peer 1 stays";
  scene.view.remove(PeerId(1));
  scene.departures.keep_last_replicas(scene.view);
  EXPECT_TRUE(scene.view.leaving().empty());
}

// ---- Room for what is handed over

// Serving either stage takes 4 bytes, learning it 5. Peer 2, which serves stage 1 alone, departs.
struct RoomScene : Scene {
  RoomScene() {
    needs = {0, {{4, 5}, {4, 5}}};
    depart({2});
  }
  void may_take(const std::vector<std::int64_t>& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      view.set_budget(PeerId(static_cast<std::int32_t>(i)), bytes[i]);
    }
  }
};

TEST(Departures, AStageIsHandedOverToOneThatHasRoomForIt) {
  RoomScene scene;
  scene.may_take({8, 9, 4, 4});
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.learns(PeerId(1), StageId(1))) << "the spare would be next, if it fitted";
}

TEST(Departures, AShadowGivesWayWhereNobodyElseHasRoom) {
  RoomScene scene;
  scene.may_take({8, 8, 4, 9});
  scene.view.learn(PeerId(3), StageId(0));
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(1)));
  EXPECT_EQ(scene.gave_way, (Roles{{PeerId(3), StageId(0)}}));
  EXPECT_FALSE(scene.view.learns(PeerId(3), StageId(0)));
}

TEST(Departures, AShadowStaysWhereAnotherHasRoom) {
  RoomScene scene;
  scene.may_take({9, 8, 4, 9});
  scene.view.learn(PeerId(3), StageId(0));
  EXPECT_TRUE(scene.hand_over());
  EXPECT_TRUE(scene.view.learns(PeerId(0), StageId(1)));
  EXPECT_TRUE(scene.gave_way.empty());
}

// Else the two would take the room from each other for ever.
TEST(Departures, WhatNobodyElseServesDoesNotGiveWay) {
  RoomScene scene;
  scene.may_take({8, 8, 4, 9});
  scene.depart({0, 1});
  scene.view.learn(PeerId(3), StageId(0));
  EXPECT_FALSE(scene.hand_over());
  EXPECT_TRUE(scene.view.learns(PeerId(3), StageId(0)));
}

TEST(Departures, AStageThatFitsNowhereStaysWhereItIs) {
  RoomScene scene;
  scene.may_take({8, 8, 4, 4});
  EXPECT_FALSE(scene.hand_over());
  EXPECT_TRUE(scene.view.learners().empty());
  EXPECT_TRUE(scene.view.serves(PeerId(2), StageId(1)));
}

// ---- Draining

TEST(Draining, AStageIsTakenOnceAllStepsThatWereOpenAreCommittedAndAgreedOn) {
  Scene scene;
  scene.view.set_leaving(PeerId(1), StageId(0), true);
  EXPECT_TRUE(scene.drained(7, 5).empty());
  EXPECT_TRUE(scene.drained(8, 6).empty());
  scene.agreed = Step(6);
  EXPECT_TRUE(scene.drained(9, 7).empty());
  EXPECT_TRUE(scene.drained(9, 8).empty());
  scene.agreed = Step(7);
  EXPECT_EQ(scene.drained(9, 8), (Roles{{PeerId(1), StageId(0)}})) << "steps 8 and 9 are not its";
  EXPECT_FALSE(scene.view.serves(PeerId(1), StageId(0)));
  EXPECT_TRUE(scene.view.leaving().empty());
  EXPECT_TRUE(scene.drained(9, 9).empty()) << "said once";
}

TEST(Draining, WhoWritesAPartOfACheckpointKeepsItsStage) {
  Scene scene;
  scene.view.set_leaving(PeerId(1), StageId(0), true);
  scene.writing = {PeerId(1)};
  EXPECT_TRUE(scene.drained(7, 7).empty());
  scene.writing.clear();
  EXPECT_EQ(scene.drained(8, 8).size(), 1u);
}

TEST(Draining, APeerThatStaysAfterAllAndLeavesLaterDrainsAnew) {
  Scene scene;
  scene.view.set_leaving(PeerId(1), StageId(0), true);
  EXPECT_TRUE(scene.drained(7, 6).empty());
  EXPECT_TRUE(scene.departures.cancel_leaving(scene.view, PeerId(1), StageId(0)));
  EXPECT_FALSE(scene.departures.cancel_leaving(scene.view, PeerId(1), StageId(0)));
  scene.view.set_leaving(PeerId(1), StageId(0), true);
  EXPECT_TRUE(scene.drained(9, 8).empty()) << "it has worked on step 9";
  EXPECT_EQ(scene.drained(10, 9).size(), 1u);
}

TEST(Draining, OfAHistoryThatIsLeftNobodyHasWorkToDo) {
  Scene scene;
  scene.view.set_leaving(PeerId(1), StageId(0), true);
  EXPECT_TRUE(scene.drained(7, 6).empty());
  scene.departures.leave_history();
  EXPECT_EQ(scene.drained(3, 3).size(), 1u) << "all have gone back to step 3";
}

TEST(Draining, WhoServesNothingAnyMoreIsReleased) {
  Scene scene;
  scene.depart({1, 3});
  EXPECT_EQ(scene.departures.release_drained(scene.view, PeerId(0)), std::vector{PeerId(3)})
      << "a spare has nothing to hand over";
  EXPECT_FALSE(scene.view.contains(PeerId(3)));
  EXPECT_FALSE(scene.departures.departs(PeerId(3)));
  EXPECT_TRUE(scene.departures.was_released(PeerId(3)));
  EXPECT_TRUE(scene.view.contains(PeerId(1)));
  EXPECT_FALSE(scene.departures.was_released(PeerId(1)));
  scene.view.take_from(PeerId(1), StageId(0));
  EXPECT_EQ(scene.departures.release_drained(scene.view, PeerId(0)), std::vector{PeerId(1)});
}

// It releases itself, when the rows are durable and another can lead.
TEST(Draining, TheLeaderIsNotReleasedWithTheOthers) {
  Scene scene;
  scene.depart({0});
  scene.view.take_from(PeerId(0), StageId(0));
  EXPECT_TRUE(scene.departures.release_drained(scene.view, PeerId(0)).empty());
  EXPECT_TRUE(scene.view.contains(PeerId(0)));
}

}  // namespace
}  // namespace swarmpi::departures_test
