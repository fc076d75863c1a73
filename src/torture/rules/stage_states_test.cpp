#include "torture/rules/stage_states.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::stage_states_test {
namespace {

const PeerId kPeer(0), kOther(1);
const StageId kStage(2);

// The run goes on after step 4.
struct Scene {
  std::string begins(std::int64_t step) {
    auto record = std::make_shared<CommitRecord>();
    record->step = Step(step);
    return states.starts(kPeer, ApplyJob{kStage, record, {}});
  }
  std::string applies(PeerId peer, std::int64_t step, std::vector<std::uint64_t> hashes) {
    return states.applied(peer, {Step(step), kStage, std::move(hashes)});
  }
  std::string stores(std::int64_t step) {
    return states.stores(kPeer, {Step(step), kStage, Term(1)});
  }

  StageStates states{Step(4)};
};

TEST(StageStates, UpdatesAreAppliedInOrder) {
  Scene scene;
  EXPECT_EQ(scene.applies(kPeer, 5, {1}), "");
  EXPECT_EQ(scene.states.step_of(kPeer, kStage), Step(5));
  EXPECT_EQ(scene.states.step_of(kOther, kStage), Step(4));
  EXPECT_EQ(scene.applies(kPeer, 7, {1}), "updates are applied in order: stage 2, step 7");
}

TEST(StageStates, ReplicasAgree) {
  Scene scene;
  scene.applies(kPeer, 5, {1, 2});
  EXPECT_EQ(scene.applies(kOther, 5, {1, 3}), "replicas agree on the state: stage 2, step 5");
  scene.applies(kPeer, 6, {1, 2});
  EXPECT_EQ(scene.applies(kOther, 6, {0, 2}), "") << "a learner lacks the first tensor";
  scene.states.ignore_differences();
  scene.applies(kPeer, 7, {1, 2});
  EXPECT_EQ(scene.applies(kOther, 7, {1, 3}), "");
}

TEST(StageStates, ALearnerBeginsAtTheStepOfItsCopy) {
  Scene scene;
  scene.states.starts(kOther, PrepareJob{kStage, Step(8)});
  EXPECT_EQ(scene.applies(kOther, 9, {1}), "");
}

TEST(StageStates, ACheckpointHoldsTheStateOfItsStep) {
  Scene scene;
  EXPECT_EQ(scene.stores(4), "");
  EXPECT_EQ(scene.stores(5), "a checkpoint holds the state of its step: stage 2, step 5");
  scene.states.stored(kPeer, kStage);
  scene.begins(5);
  EXPECT_NE(scene.stores(4), "") << "an update runs";
}

TEST(StageStates, NothingIsAppliedToAStateThatIsBeingWritten) {
  Scene scene;
  scene.stores(4);
  EXPECT_EQ(scene.begins(5),
            "nothing is applied to a state that is being written: stage 2, step 5");
  scene.states.stored(kPeer, kStage);
  EXPECT_EQ(scene.begins(5), "");
}

// An update that ran as the fallback began was of the state that is thrown away.
TEST(StageStates, AStageThatWasLoadedIsAtTheStepOfItsFile) {
  Scene scene;
  scene.begins(5);
  scene.states.loads(kPeer, {Incarnation(1), kStage, Step(2), {}});
  scene.applies(kPeer, 3, {1});
  scene.states.loaded(kPeer, kStage);
  EXPECT_EQ(scene.states.step_of(kPeer, kStage), Step(2));
  EXPECT_EQ(scene.stores(2), "");
}

TEST(StageStates, ADeathEndsWhatThePeerDid) {
  Scene scene;
  scene.stores(4);
  scene.states.died(kPeer);
  EXPECT_EQ(scene.begins(5), "");
}

}  // namespace
}  // namespace swarmpi::stage_states_test
