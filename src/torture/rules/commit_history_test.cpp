#include "torture/rules/commit_history.hpp"

#include <gtest/gtest.h>

#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi::commit_history_test {
namespace {

const PeerId kPeer(0), kOther(1), kThird(2);

CommitRef commit(std::int64_t step, double loss = 1) {
  auto record = std::make_shared<CommitRecord>();
  record->step = Step(step);
  record->loss = loss;
  return record;
}

auto fallback_to(std::int64_t step, std::int64_t incarnation) {
  auto restart = std::make_shared<RestartPoint>();
  restart->state.step = step;
  restart->state.incarnation = incarnation;
  return std::shared_ptr<const RestartPoint>(restart);
}

// Goes on after step 4.
struct Scene {
  Step last() const { return commits.last(population); }

  Population population{{kPeer, kOther, kThird}};
  CommitHistory commits{[] {
    ResumeState resume;
    resume.step = 4;
    return resume;
  }()};
};

TEST(CommitHistory, AStepIsCommittedOnce) {
  Scene scene;
  EXPECT_EQ(scene.commits.announces(kPeer, commit(5, 1)), "");
  EXPECT_EQ(scene.commits.announces(kOther, commit(5, 1)), "") << "a new leader found it";
  EXPECT_EQ(scene.commits.announces(kOther, commit(5, 2)).rfind("a step is committed once: ", 0),
            0u);
  EXPECT_EQ(scene.commits.commits().at(Step(5))->loss, 1);
}

TEST(CommitHistory, WhatADeadLeaderDecidesDoesNotCount) {
  Scene scene;
  EXPECT_EQ(scene.commits.announces_though_dead(commit(5, 1)), "");
  EXPECT_TRUE(scene.commits.commits().empty());
  scene.commits.announces(kOther, commit(5, 2));
  EXPECT_NE(scene.commits.announces_though_dead(commit(5, 1)), "");
}

TEST(CommitHistory, TheLastCommitIsOneThatALivingMemberKnows) {
  Scene scene;
  EXPECT_EQ(scene.last(), Step(4));
  scene.commits.announces(kPeer, commit(7));
  scene.commits.knows(kOther, Step(6));
  scene.commits.knows(kOther, Step(5));
  scene.commits.knows(kThird, Step(5));
  EXPECT_EQ(scene.last(), Step(7));
  scene.population.died(kPeer);
  EXPECT_EQ(scene.last(), Step(6));
  scene.population.exclude(kOther);
  EXPECT_EQ(scene.last(), Step(5));
}

TEST(CommitHistory, AfterAFallbackOnlyThoseCountThatKnowOfIt) {
  Scene scene;
  scene.commits.knows(kPeer, Step(9));
  scene.commits.knows(kOther, Step(9));
  const auto restart = fallback_to(6, 1);
  EXPECT_TRUE(scene.commits.falls_back(kPeer, restart));
  EXPECT_EQ(scene.last(), Step(6)) << "peer 1 is left behind";
  EXPECT_TRUE(scene.commits.fell_back_to(kPeer, Step(6)));
  EXPECT_FALSE(scene.commits.fell_back_to(kOther, Step(6)));
  EXPECT_TRUE(scene.commits.is_behind(kOther));
  EXPECT_FALSE(scene.commits.is_behind(kPeer));
  EXPECT_FALSE(scene.commits.falls_back(kOther, restart)) << "that is known";
  scene.commits.knows(kOther, Step(7));
  EXPECT_EQ(scene.last(), Step(7));
}

// A dead leader's fallback arrives and is refused; the next leader reuses its number.
TEST(CommitHistory, AFallbackThatReusesANumberCounts) {
  Scene scene;
  scene.commits.falls_back(kPeer, fallback_to(2, 1));
  scene.commits.announces(kPeer, commit(7));
  EXPECT_EQ(scene.last(), Step(7));
  EXPECT_TRUE(scene.commits.falls_back(kPeer, fallback_to(2, 1)));
  EXPECT_TRUE(scene.commits.fell_back_to(kPeer, Step(2)));
  EXPECT_EQ(scene.last(), Step(4)) << "the others have not heard of it";
}

TEST(CommitHistory, AnOldFallbackIsNoNews) {
  Scene scene;
  EXPECT_FALSE(scene.commits.falls_back(kPeer, fallback_to(2, 0)));
  scene.commits.falls_back(kPeer, fallback_to(2, 3));
  EXPECT_FALSE(scene.commits.falls_back(kPeer, fallback_to(1, 2)));
  EXPECT_TRUE(scene.commits.falls_back(kOther, fallback_to(1, 3)))
      << "no live peer knew the other of this number";
}

}  // namespace
}  // namespace swarmpi::commit_history_test
