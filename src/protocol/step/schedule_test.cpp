#include "protocol/step/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace swarmpi {
namespace {

TrainConfig deck(Schedule schedule) {
  TrainConfig train;
  train.steps = 110;
  train.warmup_steps = 10;
  train.lr = 1e-3;
  train.min_lr = 1e-4;
  train.schedule = schedule;
  return train;
}

TEST(Schedule, WarmsUpLinearlyFromOneShareToTheWholeRate) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant}) {
    EXPECT_FLOAT_EQ(learning_rate(deck(schedule), 1), 1e-4f);
    EXPECT_FLOAT_EQ(learning_rate(deck(schedule), 5), 5e-4f);
    EXPECT_FLOAT_EQ(learning_rate(deck(schedule), 10), 1e-3f);
  }
}

TEST(Schedule, EndsExactlyAtTheLeastRateAndStaysThere) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear}) {
    EXPECT_EQ(learning_rate(deck(schedule), 110), 1e-4f);
    EXPECT_EQ(learning_rate(deck(schedule), 500), 1e-4f);
  }
  EXPECT_EQ(learning_rate(deck(Schedule::constant), 500), 1e-3f);
}

TEST(Schedule, FollowsItsFormulaInBetween) {
  EXPECT_FLOAT_EQ(learning_rate(deck(Schedule::linear), 60), 5.5e-4f);
  for (std::int64_t update = 10; update <= 110; ++update) {
    const double progress = static_cast<double>(update - 10) / 100;
    EXPECT_FLOAT_EQ(learning_rate(deck(Schedule::cosine), update),
                    static_cast<float>(1e-4 + 9e-4 * 0.5 * (1 + std::cos(M_PI * progress))));
  }
}

TEST(Schedule, WithoutWarmUpTheFirstUpdateIsAlreadyOnTheCurve) {
  TrainConfig train = deck(Schedule::linear);
  train.warmup_steps = 0;
  train.steps = 10;
  train.min_lr = 0;
  EXPECT_FLOAT_EQ(learning_rate(train, 1), 9e-4f);
  EXPECT_EQ(learning_rate(train, 10), 0.0f);
}

TEST(Schedule, BiasCorrectionIsOneMinusThePower) {
  EXPECT_EQ(bias_correction(0, 1), 1.0f);
  EXPECT_FLOAT_EQ(bias_correction(0.9, 1), 0.1f);
  EXPECT_FLOAT_EQ(bias_correction(0.95, 2), 0.0975f);
  EXPECT_FLOAT_EQ(bias_correction(0.999, 1000), static_cast<float>(1 - std::pow(0.999, 1000)));
  EXPECT_EQ(bias_correction(0.9, 100000), 1.0f);
}

}  // namespace
}  // namespace swarmpi
