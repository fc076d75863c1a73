#include "torture/rules/stage_moves.hpp"

#include <gtest/gtest.h>

namespace swarmpi::stage_moves_test {
namespace {

const PeerId kMover(1);
const StageId kFrom(0), kTo(1);

// Peers 0 and 1 serve stage 0, peer 2 stage 1; peer 1 moves to stage 1.
struct Scene {
  Scene() {
    for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), kFrom);
    view.serve(PeerId(2), kTo);
    publish();
    view.begin_move({kMover, kFrom, kTo});
  }
  std::string publish(std::int64_t committed = 0, bool falls_back = false) {
    return moves.published(view, Incarnation(falls_back ? 1 : 0), Step(committed));
  }
  void serves_both() {
    view.serve(kMover, kTo);
    view.set_leaving(kMover, kFrom, true);
  }
  std::int64_t count(MoveEnd how) const { return moves.counts()[static_cast<std::size_t>(how)]; }

  View view;
  StageMoves moves{1};
};

TEST(StageMoves, AMoveThatIsMadeIsCounted) {
  Scene scene;
  EXPECT_EQ(scene.publish(), "");
  scene.serves_both();
  EXPECT_EQ(scene.publish(1), "");
  scene.view.take_from(kMover, kFrom);
  scene.view.end_move();
  EXPECT_EQ(scene.publish(2), "");
  EXPECT_EQ(scene.count(MoveEnd::moved), 1);
  EXPECT_EQ(scene.moves.at_the_end(Step(9)), "");
}

TEST(StageMoves, EveryOtherEndIsCountedToo) {
  const auto end = [](auto happens) {
    Scene scene;
    scene.publish();
    const bool falls_back = happens(scene);
    EXPECT_EQ(scene.publish(1, falls_back), "");
    for (std::size_t i = 0; i < scene.moves.counts().size(); ++i) {
      if (scene.moves.counts()[i] > 0) return static_cast<MoveEnd>(i);
    }
    return MoveEnd::moved;
  };
  EXPECT_EQ(end([](Scene&) { return false; }), MoveEnd::run_ended);
  EXPECT_EQ(end([](Scene& s) {
              s.view.remove(kMover);
              return false;
            }),
            MoveEnd::gone);
  EXPECT_EQ(end([](Scene& s) {
              s.view.take_from(kMover, kTo);
              s.view.end_move();
              return false;
            }),
            MoveEnd::stayed);
  EXPECT_EQ(end([](Scene& s) {
              s.view.serve(kMover, kTo);
              s.view.remove(PeerId(0));
              s.view.end_move();
              return false;
            }),
            MoveEnd::kept_both);
  EXPECT_EQ(end([](Scene& s) {
              s.view.end_move();
              return true;
            }),
            MoveEnd::gone_back);
}

TEST(StageMoves, WhoMovesHasBothStages) {
  Scene scene;
  scene.view.take_from(kMover, kTo);
  EXPECT_EQ(scene.publish(),
            "a move that came to nothing ends: peer 1 moves from stage 0 to stage 1");
  scene.view.learn(kMover, kTo);
  scene.view.take_from(kMover, kFrom);
  EXPECT_EQ(scene.publish(),
            "who moves serves its old stage, unless it has no room for both: "
            "peer 1 moves from stage 0 to stage 1");
}

TEST(StageMoves, AReplicaStays) {
  Scene scene;
  scene.serves_both();
  scene.view.remove(PeerId(0));
  EXPECT_EQ(scene.publish(),
            "a replica stays in every stage: peer 1 moves from stage 0 to stage 1");
}

TEST(StageMoves, WhoHasLearnedLeavesIfOthersStay) {
  const auto end = [](bool fellow_may_leave) {
    Scene scene;
    scene.publish();
    scene.view.serve(kMover, kTo);
    scene.view.end_move();
    if (fellow_may_leave) scene.moves.ask_to_leave(PeerId(0));
    return scene.publish(1);
  };
  EXPECT_EQ(end(true), "");
  EXPECT_EQ(end(false),
            "who has learned the new stage leaves the old one, if others stay: peer 1 moves from "
            "stage 0 to stage 1");
}

TEST(StageMoves, AMoveThatGoesOnUnderANewLeaderIsCounted) {
  Scene scene;
  scene.publish();
  scene.view.number.term = Term(1);
  EXPECT_EQ(scene.publish(), "");
  EXPECT_EQ(scene.count(MoveEnd::taken_over), 1);
}

TEST(StageMoves, OneAtATime) {
  Scene scene;
  scene.publish();
  scene.view.end_move();
  scene.view.begin_move({PeerId(0), kFrom, kTo});
  EXPECT_EQ(scene.publish(), "one move at a time: peer 0 moves from stage 0 to stage 1");
}

TEST(StageMoves, NoneOutlivesAGoingBack) {
  Scene scene;
  scene.publish();
  EXPECT_NE(scene.publish(0, true), "");
}

TEST(StageMoves, ANewLeaderMayNotKnowTheLastView) {
  Scene scene;
  scene.publish();
  scene.view.end_move();
  scene.view.begin_move({PeerId(0), kFrom, kTo});
  scene.view.number.term = Term(1);
  EXPECT_EQ(scene.publish(), "");
}

TEST(StageMoves, WhoLeavesHasLeftSoon) {
  Scene scene;
  scene.serves_both();
  EXPECT_EQ(scene.publish(7), "");
  EXPECT_EQ(scene.publish(11), "");
  EXPECT_EQ(scene.publish(12),
            "every move ends: peer 1 moves from stage 0 to stage 1; it has served both since step "
            "7, and step 12 is committed");
  EXPECT_NE(scene.moves.at_the_end(Step(12)), "");
}

}  // namespace
}  // namespace swarmpi::stage_moves_test
