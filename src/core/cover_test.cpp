#include "core/cover.hpp"

#include <gtest/gtest.h>

namespace swarmpi::cover_test {
namespace {

MicrobatchId training(std::int64_t step, std::int32_t index) {
  return {Step(step), Purpose::train, index};
}

TEST(Cover, OfSharesAddsUpToThatOfTheStepInAnyOrder) {
  Cover odd, even;
  for (std::int32_t i = 99; i >= 0; --i) (i % 2 == 0 ? even : odd).add(training(7, i));
  odd += even;
  EXPECT_EQ(odd, Cover::of_step(Step(7), 100));
}

TEST(Cover, OfOwnSumsGrowsByThoseOfAllAddends) {
  Cover own, others[2];
  for (std::int32_t i = 0; i < 9; ++i) (i < 3 ? own : others[i % 2]).add(training(7, i));
  const PartialSums addends[] = {{nullptr, others[0]}, {nullptr, others[1]}};
  EXPECT_EQ(with_addends(own, addends), Cover::of_step(Step(7), 9));
  EXPECT_EQ(with_addends(own, {}), own);
}

TEST(Cover, ShowsOneMicrobatchInPlaceOfAnother) {
  Cover cover;
  for (const std::int32_t index : {0, 1, 1, 3}) cover.add(training(7, index));
  EXPECT_EQ(cover.microbatches, 4);
  EXPECT_NE(cover, Cover::of_step(Step(7), 4));
}

TEST(Cover, ShowsAMicrobatchOfAnotherStep) {
  Cover cover;
  cover.add(training(7, 0));
  EXPECT_NE(cover, Cover::of_step(Step(8), 1));
}

TEST(Cover, OfNothingIsThatOfAStepWithoutMicrobatches) {
  EXPECT_EQ(Cover(), Cover::of_step(Step(7), 0));
}

}  // namespace
}  // namespace swarmpi::cover_test
