#include "emulation/fault_triggers.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::fault_triggers_test {
namespace {

constexpr MicrobatchId of_step(std::int64_t step, std::int32_t index) {
  return {Step(step), Purpose::train, index};
}
Action forward(const MicrobatchId& id) {
  ForwardJob job;
  job.work = {id, StageId(0)};
  return StartJob{job};
}
Action backward(const MicrobatchId& id) {
  BackwardJob job;
  job.work = {id, StageId(0)};
  return StartJob{job};
}

// The events that the triggers inject at one action.
struct Scene {
  explicit Scene(const std::vector<FaultAt>& faults)
      : triggers(faults, PeerId(1), [this](FaultEvent event) { injected += name_of(event); }) {}
  std::string before(const Action& action) {
    injected.clear();
    triggers.asked(0, PeerId(1), action);
    return injected;
  }
  std::string injected;
  FaultTriggers triggers;
};

TEST(FaultTriggers, AFaultComesOnceBeforeTheFirstWorkOfItsStep) {
  Scene scene({{3, 1, FaultEvent::kill}});
  EXPECT_EQ(scene.before(forward(of_step(2, 0))), "");
  EXPECT_EQ(scene.before(SetTimer{1}), "");
  EXPECT_EQ(scene.before(forward({Step(3), Purpose::validate, 0})), "");
  EXPECT_EQ(scene.before(backward(of_step(3, 2))), "kill");
  EXPECT_EQ(scene.before(backward(of_step(3, 3))), "");
}

TEST(FaultTriggers, AFaultWaitsForItsPointAndMicrobatch) {
  Scene scene({{3, 1, FaultEvent::notice, FaultPoint::backward, 2}});
  EXPECT_EQ(scene.before(forward(of_step(3, 2))), "");
  EXPECT_EQ(scene.before(backward(of_step(3, 1))), "");
  EXPECT_EQ(scene.before(backward(of_step(3, 2))), "notice");
}

TEST(FaultTriggers, ReductionCommitUpdateAndCheckpointArePointsToo) {
  const std::vector<FaultAt> faults = {{3, 1, FaultEvent::kill, FaultPoint::reduce},
                                       {3, 1, FaultEvent::kill, FaultPoint::commit},
                                       {3, 1, FaultEvent::kill, FaultPoint::apply},
                                       {3, 1, FaultEvent::kill, FaultPoint::checkpoint}};
  Scene scene(faults);
  const auto record = [] {
    auto made = std::make_shared<CommitRecord>();
    made->step = Step(3);
    return made;
  }();
  ShareJob share;
  share.step = Step(3);
  EXPECT_EQ(scene.before(StartJob{share}), "kill");
  EXPECT_EQ(scene.before(Send{PeerId(0), {{}, {}, CommitMessage{record, Step(2), Step(0)}}}),
            "kill");
  EXPECT_EQ(scene.before(StartJob{ApplyJob{StageId(0), record, {}}}), "kill");
  EXPECT_EQ(scene.before(StoreStage{Step(3), StageId(0), Term(1)}), "kill");
}

// Its weights are nowhere else then.
TEST(FaultTriggers, AnOwnerAppliesAnUpdateFromItsFirstChunkOn) {
  Scene scene({{3, 1, FaultEvent::kill, FaultPoint::apply}});
  auto record = std::make_shared<CommitRecord>();
  record->step = Step(3);
  EXPECT_EQ(scene.before(StartJob{UpdateJob{record, StageId(0), 0, {0, 1}, true}}), "kill");
}

TEST(FaultTriggers, FlipsAndFaultsOfOtherPeersAreNotForThisOne) {
  Scene scene({{3, 1, FaultEvent::flip}, {3, 2, FaultEvent::kill}});
  EXPECT_EQ(scene.before(forward(of_step(3, 0))), "");
}

}  // namespace
}  // namespace swarmpi::fault_triggers_test
