#include "protocol/step/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/optimizer_element.hpp"

namespace swarmpi::schedule_test {
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

TEST(Schedule, IsAtTheLeastRateOneUpdateAfterTheLastAndStaysThere) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear}) {
    EXPECT_GT(learning_rate(deck(schedule), 110), 1e-4f);
    EXPECT_EQ(learning_rate(deck(schedule), 111), 1e-4f);
    EXPECT_EQ(learning_rate(deck(schedule), 500), 1e-4f);
  }
  EXPECT_EQ(learning_rate(deck(Schedule::constant), 500), 1e-3f);
}

TEST(Schedule, ARunThatNamesItsLengthHasTheSameRatesHoweverFarItGoes) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant}) {
    TrainConfig further = deck(schedule);
    further.schedule_steps = further.steps;
    further.steps = 1000;
    for (std::int64_t update = 1; update <= 300; ++update) {
      EXPECT_EQ(learning_rate(further, update), learning_rate(deck(schedule), update));
    }
  }
}

TEST(Schedule, EveryUpdateLearnsThoughTheLeastRateIsZero) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant}) {
    for (const std::int64_t warmup : {0, 1, 9, 10}) {
      TrainConfig train = deck(schedule);
      train.steps = 10;
      train.warmup_steps = warmup;
      train.min_lr = 0;
      for (std::int64_t update = 1; update <= 10; ++update) {
        EXPECT_GT(learning_rate(train, update), 0.0f) << update << " of 10, warm-up " << warmup;
      }
    }
  }
}

TEST(Schedule, FollowsItsFormulaInBetween) {
  EXPECT_FLOAT_EQ(learning_rate(deck(Schedule::linear), 61), 5.5e-4f);
  for (std::int64_t update = 11; update <= 110; ++update) {
    const double progress = static_cast<double>(update - 11) / 100;
    EXPECT_FLOAT_EQ(learning_rate(deck(Schedule::cosine), update),
                    static_cast<float>(1e-4 + 9e-4 * 0.5 * (1 + std::cos(M_PI * progress))));
  }
}

TEST(Schedule, WithoutWarmUpTheFirstUpdateHasTheWholeRate) {
  TrainConfig train = deck(Schedule::linear);
  train.warmup_steps = 0;
  train.steps = 10;
  train.min_lr = 0;
  EXPECT_FLOAT_EQ(learning_rate(train, 1), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate(train, 10), 1e-4f);
}

TEST(Schedule, BiasCorrectionIsOneMinusThePowerOfWhatFp32Holds) {
  EXPECT_EQ(bias_correction(0, 1), 1.0f);
  EXPECT_FLOAT_EQ(bias_correction(0.9, 1), 0.1f);
  EXPECT_FLOAT_EQ(bias_correction(0.95, 2), 0.0975f);
  EXPECT_FLOAT_EQ(bias_correction(0.999, 1000),
                  static_cast<float>(1 - std::pow(double{0.999f}, 1000)));
  EXPECT_EQ(bias_correction(0.9, 100000), 1.0f);
}

/// Both moments after `updates` updates, corrected, against their definition in long double.
void expect_corrected_moments(double beta1, double beta2, std::int64_t updates) {
  kernels::UpdateParameters p;
  p.beta1 = static_cast<float>(beta1);
  p.beta2 = static_cast<float>(beta2);
  kernels::Moments moments;
  long double mean = 0, square = 0, power1 = 1, power2 = 1;
  const auto b1 = static_cast<long double>(beta1), b2 = static_cast<long double>(beta2);
  for (std::int64_t update = 1; update <= updates; ++update) {
    const float gradient = 1.5f + std::sin(0.7f * static_cast<float>(update));
    moments = kernels::next_moments(moments, gradient, p);
    mean = b1 * mean + (1 - b1) * gradient;
    square = b2 * square + (1 - b2) * gradient * gradient;
    power1 *= b1;
    power2 *= b2;
    const auto exact1 = static_cast<double>(mean / (1 - power1));
    const auto exact2 = static_cast<double>(square / (1 - power2));
    EXPECT_NEAR(double{moments.first} / bias_correction(beta1, update), exact1, 2e-4 * exact1)
        << "beta1 = " << beta1 << ", update " << update;
    EXPECT_NEAR(double{moments.second} / bias_correction(beta2, update), exact2, 2e-4 * exact2)
        << "beta2 = " << beta2 << ", update " << update;
  }
}

TEST(Schedule, TheCorrectionIsOfTheDecayThatIsUsed) {
  expect_corrected_moments(0.99999, 0.99999, 5000);
  expect_corrected_moments(0.9, 0.999, 5000);
  expect_corrected_moments(0.3, 0.5, 100);
}

}  // namespace
}  // namespace swarmpi::schedule_test
