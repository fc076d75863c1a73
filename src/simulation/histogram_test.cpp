#include "simulation/histogram.hpp"

#include <gtest/gtest.h>

namespace swarmpi::histogram_test {
namespace {

TEST(Histogram, CountsAndMean) {
  Histogram histogram;
  for (const std::int64_t value : {-1, 0, 0, 5}) histogram.add(value);
  EXPECT_EQ(histogram.total(), 4);
  EXPECT_EQ(histogram.count(0), 2);
  EXPECT_EQ(histogram.count(-3, 0), 3);
  EXPECT_EQ(histogram.mean(), 1);
  EXPECT_EQ(Histogram().mean(), 0);
}

TEST(Histogram, WhatIsFarAwaySharesALine) {
  Histogram a, b;
  a.add(0);
  b.add(20);
  b.add(30);
  const std::string text = side_by_side("one", a, "other", b);
  EXPECT_NE(text.find("13..30"), std::string::npos);
  EXPECT_EQ(text.find("\n        30 "), std::string::npos);
  EXPECT_NE(text.find("25.000"), std::string::npos);
}

}  // namespace
}  // namespace swarmpi::histogram_test
