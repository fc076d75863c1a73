#include "protocol/leader/roles.hpp"

#include <gtest/gtest.h>

#include "protocol/leader/leader_parts_test.hpp"
#include "protocol/messages/ending.hpp"

namespace swarmpi::roles_test {
namespace {

using Texts = std::vector<std::string>;

// Four peers are to serve, and three do.
struct Scene : testing::LeaderParts {
  Roles roles{PeerId(0), plan, {4, 4, PeerId(3)}, view, history, record, outbox, now_s};
};

TEST(Roles, ASpareLearnsWhereOneIsMissingAndServesOnceItIsPromoted) {
  Scene scene;
  EXPECT_TRUE(scene.roles.assign_learners());
  ASSERT_TRUE(scene.view.learns(PeerId(3), StageId(1))) << "one replica there, two in the other";
  EXPECT_FALSE(scene.roles.assign_learners()) << "nobody is left";
  EXPECT_FALSE(scene.roles.promote_learned()) << "it has told nothing of its state";
  scene.roles.promote(PeerId(3), StageId(1));
  EXPECT_TRUE(scene.view.serves(PeerId(3), StageId(1)));
  EXPECT_EQ(scene.events(), (Texts{"migrate 3 1"}));
}

TEST(Roles, ALearnerThatIsDroppedWaitsBeforeItBeginsAgain) {
  Scene scene;
  scene.roles.assign_learners();
  scene.roles.drop_learner(PeerId(3), StageId(1), "too slow");
  EXPECT_FALSE(scene.view.learns(PeerId(3), StageId(1)));
  EXPECT_EQ(scene.events(), (Texts{"dismiss 3 1"}));
  EXPECT_FALSE(scene.roles.assign_learners());
  scene.now_s = 1000;
  EXPECT_TRUE(scene.roles.assign_learners());
}

TEST(Roles, WhoIsAskedToLeaveIsReleasedOnceNothingOfItIsNeeded) {
  Scene scene;
  scene.plan.torture_only.notices_together_s = 0;
  scene.roles.notice(PeerId(3), "preempted");
  scene.hearing.heard({1, 2, 3}, 0);
  scene.roles.begin_departures(scene.hearing.detector);
  EXPECT_EQ(scene.events(), (Texts{"notice 3 -1"}));
  EXPECT_FALSE(scene.roles.was_released(PeerId(3)));
  EXPECT_TRUE(scene.roles.process_departures());
  EXPECT_EQ(scene.events(), (Texts{"leave 3 -1"}));
  EXPECT_EQ(scene.told<ReleaseMessage>(), (std::vector{PeerId(3)}));
  EXPECT_FALSE(scene.view.contains(PeerId(3)));
  EXPECT_TRUE(scene.roles.was_released(PeerId(3)));
  EXPECT_FALSE(scene.roles.leader_has_left());
}

TEST(Roles, WhereTheLeaderLeavesNobodyIsSpawned) {
  Scene scene;
  scene.plan.swarm.spawn = true;
  scene.plan.torture_only.notices_together_s = 0;
  scene.roles.lost(PeerId(3));
  scene.view.remove(PeerId(3));
  scene.hearing.heard({1, 2}, 0);
  scene.roles.notice(PeerId(0), "preempted");
  scene.roles.begin_departures(scene.hearing.detector);
  scene.now_s = 10;
  scene.roles.spawn_newcomer();
  for (const Action& action : scene.outbox.take()) {
    EXPECT_FALSE(holds_alternative<SpawnPeer>(action));
  }
}

TEST(Roles, WhereAllGoBackThoseWhoDepartServeOnlyIfNobodyElseCan) {
  Scene scene;
  scene.plan.torture_only.notices_together_s = 0;
  scene.hearing.heard({1, 2, 3}, 0);
  scene.roles.notice(PeerId(1), "preempted");
  scene.roles.begin_departures(scene.hearing.detector);
  const Hands hands = scene.roles.hands();
  EXPECT_EQ(hands.workers, (std::vector{PeerId(0), PeerId(2), PeerId(3)}));
  EXPECT_EQ(hands.last, (std::vector{PeerId(1)}));
}

}  // namespace
}  // namespace swarmpi::roles_test
