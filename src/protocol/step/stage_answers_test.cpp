#include "protocol/step/stage_answers.hpp"

#include <gtest/gtest.h>

namespace swarmpi::stage_answers_test {
namespace {

const StageId kStage(0);

View two_replicas() {
  View view;
  for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), kStage);
  view.add(PeerId(2));
  return view;
}

TEST(StageAnswers, AreCompleteOnceEveryReplicaHasAnswered) {
  const View view = two_replicas();
  StageAnswers<int> answers;
  EXPECT_FALSE(answers.from_all(view, kStage));
  answers.enter(view, kStage, PeerId(0), 7);
  EXPECT_FALSE(answers.from_all(view, kStage));
  answers.enter(view, kStage, PeerId(1), 8);
  EXPECT_TRUE(answers.from_all(view, kStage));
  EXPECT_TRUE(answers.from_all(view, 1));
  EXPECT_FALSE(answers.from_all(view, 2)) << "nobody has answered about stage 1";
}

// A report and a table may both carry it.
TEST(StageAnswers, AnAnswerThatComesTwiceCountsOnce) {
  const View view = two_replicas();
  StageAnswers<int> answers;
  EXPECT_FALSE(answers.from_all(view, kStage));
  for (int time = 0; time < 2; ++time) answers.enter(view, kStage, PeerId(0), time);
  EXPECT_FALSE(answers.from_all(view, kStage));
  EXPECT_EQ(answers.of(kStage).at(PeerId(0)), 1) << "the later one counts";
  EXPECT_TRUE(answers.counts_hold(view));
}

TEST(StageAnswers, OfAPeerThatDoesNotServeTheStageIsNotCounted) {
  View view = two_replicas();
  StageAnswers<int> answers;
  EXPECT_FALSE(answers.from_all(view, kStage));
  answers.enter(view, kStage, PeerId(0), 0);
  answers.enter(view, kStage, PeerId(2), 0);  // a learner's
  EXPECT_FALSE(answers.from_all(view, kStage));
  view.serve(PeerId(2), kStage);
  EXPECT_FALSE(answers.from_all(view, kStage)) << "peer 1 has not answered";
  view.remove(PeerId(1));
  EXPECT_TRUE(answers.from_all(view, kStage));
}

TEST(StageAnswers, WhatIsForgottenIsMissingAgain) {
  const View view = two_replicas();
  StageAnswers<int> answers;
  for (const std::int32_t id : {0, 1}) answers.enter(view, kStage, PeerId(id), 0);
  EXPECT_TRUE(answers.from_all(view, kStage));
  answers.forget(PeerId(1), StageId(1));
  EXPECT_TRUE(answers.from_all(view, kStage)) << "that was another stage";
  answers.forget(PeerId(1), std::nullopt);
  EXPECT_FALSE(answers.from_all(view, kStage));
  EXPECT_FALSE(answers.has(kStage, PeerId(1)));
}

}  // namespace
}  // namespace swarmpi::stage_answers_test
