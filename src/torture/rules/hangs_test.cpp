#include "torture/rules/hangs.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/stalls.hpp"

namespace swarmpi::hangs_test {
namespace {

constexpr double kPatienceS = 1;
constexpr double kForEver = 1e6;

// Peers 0 and 1 serve stage 0, peer 2 stage 1 alone; nobody was disturbed since long.
struct Scene {
  Scene() {
    View all;
    for (const std::int32_t id : {0, 1}) all.serve(PeerId(id), StageId(0));
    all.serve(PeerId(2), StageId(1));
    view = share(all);
    hangs.disturbed(0);
  }
  std::string ends(const std::string& why, double now_s = 100) {
    return hangs.ends(now_s, Status::stopped(why), *view,
                      [this](PeerId peer) { return peer != gone; });
  }

  Hangs hangs{kPatienceS};
  ViewRef view;
  PeerId gone{9};
};

TEST(Hangs, OnlyWhatHangsIsReportedAndGivenUp) {
  Scene scene;
  EXPECT_NE(scene.hangs.tells(5, PeerId(1), LateMessage{Task::job, true, "a pass", 4}), "");
  EXPECT_NE(scene.hangs.gives_up(5, PeerId(1)), "");
  scene.hangs.expect(PeerId(1), Task::job, 10);
  EXPECT_EQ(scene.hangs.tells(5, PeerId(1), LateMessage{Task::job, true, "a pass", 4}), "");
  EXPECT_EQ(scene.hangs.gives_up(5, PeerId(1)), "");
  EXPECT_NE(scene.hangs.gives_up_disk(5, PeerId(1)), "") << "its disk does not hang";
  EXPECT_NE(scene.hangs.gives_up(12, PeerId(1)), "") << "it went on at 10";
}

TEST(Hangs, OnePeerAtATimeIsGivenUp) {
  Scene scene;
  for (const std::int32_t peer : {0, 1, 2}) scene.hangs.expect(PeerId(peer), Task::job, kForEver);
  EXPECT_EQ(scene.hangs.gives_up(5, PeerId(1)), "");
  EXPECT_NE(scene.hangs.gives_up(6, PeerId(0)), "");
  scene.hangs.stays(PeerId(1));
  EXPECT_EQ(scene.hangs.gives_up(6, PeerId(0)), "");
  scene.hangs.commits(Incarnation(0), Step(3));
  EXPECT_EQ(scene.hangs.gives_up(7, PeerId(2)), "") << "a step was committed";
  EXPECT_EQ(scene.hangs.gives_up(18, PeerId(1)), "") << "long after";
}

TEST(Hangs, WhoGoesOnAsItIsToldToGoOrDiesOfSomethingElseIsNotOneThatWasGivenUp) {
  Scene scene;
  scene.hangs.expect(PeerId(1), Task::job, 10);
  for (const std::int32_t peer : {0, 2}) scene.hangs.expect(PeerId(peer), Task::job, kForEver);
  EXPECT_EQ(scene.hangs.gives_up(10.1, PeerId(1)), "") << "it hung until just now";
  EXPECT_EQ(scene.hangs.gives_up(10.1, PeerId(0)), "");
  EXPECT_NE(scene.hangs.gives_up(10.2, PeerId(2)), "");
  scene.hangs.died(PeerId(0));
  EXPECT_EQ(scene.hangs.gives_up(10.2, PeerId(2)), "");
}

TEST(Hangs, WhoWasStoppedSaysWhatItKnewBefore) {
  Scene scene;
  const LateMessage late{Task::storage, true, "a write", 3};
  scene.hangs.expect(PeerId(1), Task::storage, 10);
  EXPECT_NE(scene.hangs.tells(30, PeerId(1), late), "");
  scene.hangs.stopped(PeerId(1), 20, 30);
  EXPECT_NE(scene.hangs.tells(30, PeerId(1), late), "") << "it had gone on before";
  scene.hangs.stopped(PeerId(1), 9, 30);
  EXPECT_EQ(scene.hangs.tells(30, PeerId(1), late), "");
  scene.hangs.expect(PeerId(2), Task::storage, 10);
  scene.hangs.stopped(PeerId(2), 10.1, 30);
  EXPECT_EQ(scene.hangs.tells(30, PeerId(2), late), "") << "it may not have looked in between";
}

TEST(Hangs, WhoLeadsAgainHasShownThatItsDiskWorks) {
  Scene scene;
  scene.hangs.expect(PeerId(1), Task::storage, 10);
  scene.hangs.stored_proof(PeerId(1));
  EXPECT_EQ(scene.hangs.abstains(5, PeerId(1)), "");
  EXPECT_NE(scene.hangs.comes_back(PeerId(1)), "") << "that was before";
  scene.hangs.stored_proof(PeerId(1));
  EXPECT_EQ(scene.hangs.comes_back(PeerId(1)), "");
}

TEST(Hangs, NoRunEndsForAJobThatAnotherPeerCouldDo) {
  Scene scene;
  const std::string why = "peer 1 hangs in a pass for 50 s, and no other peer can do it";
  scene.hangs.expect(PeerId(1), Task::job, kForEver);
  EXPECT_EQ(scene.ends(why), "ends for a job that peer 0 could do: " + why);
  EXPECT_EQ(scene.ends(why, 11), "") << "the others may not know yet";
  scene.gone = PeerId(0);
  EXPECT_EQ(scene.ends(why), "");
}

TEST(Hangs, ARunMayEndForAJobThatNobodyElseCanDo) {
  Scene scene;
  scene.hangs.expect(PeerId(2), Task::job, kForEver);
  EXPECT_EQ(scene.ends("peer 2 hangs in a pass for 50 s, and no other peer can do it"), "");
}

TEST(Hangs, NoRunEndsForAStageThatAnotherPeerHasLoaded) {
  Scene scene;
  const std::string why = "peer 1 hangs in loading its stages (x) for 50 s, and no other peer can";
  scene.hangs.expect(PeerId(1), Task::storage, kForEver);
  EXPECT_EQ(scene.ends(why), "ends for loading that peer 0 could do: " + why);
  scene.gone = PeerId(0);
  EXPECT_EQ(scene.ends(why), "");
}

TEST(Hangs, NoRunEndsForADiskBesideAGoodOne) {
  Scene scene;
  const std::string why = "a call does not return; no other peer has shown that it can store";
  EXPECT_EQ(scene.ends(why), "") << "nothing hung: another rule says what is wrong then";
  scene.hangs.expect(PeerId(0), Task::storage, kForEver);
  EXPECT_NE(scene.ends(why), "");
  scene.hangs.expect(PeerId(1), Task::storage, kForEver);
  scene.hangs.expect(PeerId(2), Task::storage, kForEver);
  EXPECT_EQ(scene.ends(why), "");
}

TEST(Hangs, NoRunEndsForADiskBesideOneThatWorksAgain) {
  Scene scene;
  for (const std::int32_t peer : {1, 2}) scene.hangs.expect(PeerId(peer), Task::storage, 95);
  scene.hangs.expect(PeerId(0), Task::storage, kForEver);
  EXPECT_EQ(scene.ends("no other peer can store what the run makes"), "") << "lately";
  EXPECT_NE(scene.ends("no other peer can store what the run makes", 110), "");
}

}  // namespace
}  // namespace swarmpi::hangs_test
