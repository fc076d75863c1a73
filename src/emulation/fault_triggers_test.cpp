#include "emulation/fault_triggers.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace swarmpi {
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

TEST(FaultTriggers, AFaultComesOnceBeforeTheFirstWorkOfItsStep) {
  FaultTriggers triggers({{3, 1, FaultEvent::kill}}, PeerId(1));
  EXPECT_FALSE(triggers.due(forward(of_step(2, 0))));
  EXPECT_FALSE(triggers.due(SetTimer{1}));
  EXPECT_FALSE(triggers.due(forward({Step(3), Purpose::validate, 0})));
  EXPECT_EQ(triggers.due(backward(of_step(3, 2))), FaultEvent::kill);
  EXPECT_FALSE(triggers.due(backward(of_step(3, 3))));
}

TEST(FaultTriggers, AFaultWaitsForItsPointAndMicrobatch) {
  FaultTriggers triggers({{3, 1, FaultEvent::notice, FaultPoint::backward, 2}}, PeerId(1));
  EXPECT_FALSE(triggers.due(forward(of_step(3, 2))));
  EXPECT_FALSE(triggers.due(backward(of_step(3, 1))));
  EXPECT_EQ(triggers.due(backward(of_step(3, 2))), FaultEvent::notice);
}

TEST(FaultTriggers, ReductionCommitUpdateAndCheckpointArePointsToo) {
  const std::vector<FaultAt> faults = {{3, 1, FaultEvent::kill, FaultPoint::reduce},
                                       {3, 1, FaultEvent::kill, FaultPoint::commit},
                                       {3, 1, FaultEvent::kill, FaultPoint::apply},
                                       {3, 1, FaultEvent::kill, FaultPoint::checkpoint}};
  FaultTriggers triggers(faults, PeerId(1));
  const auto record = [] {
    auto made = std::make_shared<CommitRecord>();
    made->step = Step(3);
    return made;
  }();
  ShareJob share;
  share.step = Step(3);
  EXPECT_TRUE(triggers.due(StartJob{share}));
  EXPECT_TRUE(triggers.due(Send{PeerId(0), {{}, {}, CommitMessage{record, Step(2), Step(0)}}}));
  EXPECT_TRUE(triggers.due(StartJob{ApplyJob{StageId(0), record, {}}}));
  EXPECT_TRUE(triggers.due(StoreStage{Step(3), StageId(0), Term(1)}));
}

TEST(FaultTriggers, FlipsAndFaultsOfOtherPeersAreNotForThisOne) {
  FaultTriggers triggers({{3, 1, FaultEvent::flip}, {3, 2, FaultEvent::kill}}, PeerId(1));
  EXPECT_FALSE(triggers.due(forward(of_step(3, 0))));
}

}  // namespace
}  // namespace swarmpi
