#include "protocol/replica/learning.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

using Requests = std::vector<std::pair<PeerId, std::int32_t>>;

const StageId kStage(0);
const std::vector<PeerId> kDonors{PeerId(0), PeerId(1)};

Learning allocated(std::size_t tensors) {
  Learning learning(tensors);
  learning.allocating();
  learning.allocated();
  return learning;
}

TEST(Learning, AsksDonorsInTurnAndAFewTensorsAtATime) {
  Learning waiting(6);
  EXPECT_TRUE(waiting.ask(PeerId(2), kDonors).empty()) << "there is no memory yet";
  Learning learning = allocated(6);
  EXPECT_EQ(learning.ask(PeerId(3), kDonors),
            (Requests{{PeerId(1), 0}, {PeerId(0), 1}, {PeerId(1), 2}, {PeerId(0), 3}}));
  EXPECT_TRUE(learning.ask(PeerId(3), kDonors).empty()) << "four are on their way";
  learning.receive({kStage, 1, Step(5), nullptr}, Step(5));
  EXPECT_EQ(learning.ask(PeerId(3), kDonors), (Requests{{PeerId(1), 4}}));
}

TEST(Learning, WhatADeadDonorOwesIsAskedOfAnother) {
  Learning learning = allocated(2);
  learning.ask(PeerId(2), kDonors);
  View view;
  view.serve(PeerId(1), kStage);
  learning.forget_donors(view, kStage);
  EXPECT_EQ(learning.ask(PeerId(2), {PeerId(1)}), (Requests{{PeerId(1), 0}}));
}

// It is written once the stage is of its step.
TEST(Learning, ATensorOfALaterStepWaitsForTheUpdate) {
  Learning learning = allocated(2);
  learning.receive({kStage, 0, Step(6), nullptr}, Step(5));
  EXPECT_EQ(learning.next_to_write(Step(5)), nullptr);
  learning.receive({kStage, 1, Step(4), nullptr}, Step(5));
  EXPECT_EQ(learning.next_to_write(Step(4)), nullptr) << "older than the state: of no use";
  learning.begin_update(true);
  learning.updated({Step(6), kStage, {0, 0}});
  ASSERT_NE(learning.next_to_write(Step(6)), nullptr);
  learning.written({kStage, 0, 77});
  EXPECT_EQ(learning.here(), (std::vector<bool>{true, false}));
  EXPECT_EQ(learning.hashes()[0], 77u);
  EXPECT_FALSE(learning.complete());
}

TEST(Learning, AnUpdateWithoutTheGradientLosesTheTensors) {
  Learning learning = allocated(1);
  learning.receive({kStage, 0, Step(5), nullptr}, Step(5));
  learning.written({kStage, 0, 77});
  EXPECT_TRUE(learning.complete());
  EXPECT_EQ(learning.begin_update(true), std::vector<bool>{true});
  learning.updated({Step(6), kStage, {78}});
  EXPECT_TRUE(learning.complete());
  EXPECT_EQ(learning.hashes()[0], 78u);
  EXPECT_EQ(learning.begin_update(false), std::vector<bool>{false});
  learning.updated({Step(7), kStage, {0}});
  EXPECT_FALSE(learning.complete());
}

TEST(TensorRequests, AreAnsweredOnceTheStageIsOfTheStep) {
  TensorRequests requests;
  requests.receive({kStage, 3, Step(6)}, PeerId(9));
  const auto at = [](std::int64_t step) {
    return [step](StageId) { return std::optional(Step(step)); };
  };
  EXPECT_FALSE(requests.next(at(5)));
  const auto job = requests.next(at(7));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->tensor, 3);
  const auto [learner, tensor] = requests.read({kStage, 3, nullptr});
  EXPECT_EQ(learner, PeerId(9));
  EXPECT_EQ(tensor.step, Step(7)) << "the state that was read";
  EXPECT_FALSE(requests.next(at(7)));
}

}  // namespace
}  // namespace swarmpi
