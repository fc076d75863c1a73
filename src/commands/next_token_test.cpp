#include "commands/next_token.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace swarmpi {
namespace {

TEST(NextToken, GreedyTakesTheFirstOfTheLikeliest) {
  const std::array<float, 4> logits{1, 5, 5, -2};
  for (const double u : {0.01, 0.5, 1.0}) EXPECT_EQ(next_token(logits, 0, u), 1);
}

TEST(NextToken, DrawsInProportionToTheProbabilities) {
  const std::array<float, 3> logits{0, std::log(2.0f), std::log(5.0f)};
  std::array<int, 3> counts{};
  constexpr int kDraws = 8000;
  for (int i = 1; i <= kDraws; ++i)
    ++counts[static_cast<std::size_t>(next_token(logits, 1, static_cast<double>(i) / kDraws))];
  EXPECT_NEAR(counts[0], kDraws / 8, 1);
  EXPECT_NEAR(counts[1], kDraws * 2 / 8, 1);
  EXPECT_NEAR(counts[2], kDraws * 5 / 8, 1);
}

TEST(NextToken, AHighTemperatureLevelsAndALowOneSharpens) {
  const std::array<float, 2> logits{0, 3};
  EXPECT_EQ(next_token(logits, 1000, 0.4), 0);
  EXPECT_EQ(next_token(logits, 0.01, 1e-6), 1);
}

TEST(NextToken, LogitsOfAnySizeAreSafe) {
  const std::array<float, 2> huge{-3e38f, 3e38f};
  EXPECT_EQ(next_token(huge, 1, 0.5), 1);
  const std::array<float, 1> one{-7};
  EXPECT_EQ(next_token(one, 1, 1.0), 0);
}

}  // namespace
}  // namespace swarmpi
