#include "report/goodput_total.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace swarmpi::goodput_total_test {
namespace {

TEST(GoodputTotal, TellsWhatTheTimeOfAllPeersWentByWith) {
  GoodputTotal total;
  total.add({.step = 1, .peer = 0, .useful_s = 60, .repeated_s = 5, .link_s = 5});
  total.add({.step = 1, .peer = 1, .useful_s = 60, .reduction_s = 10, .repair_s = 10});
  total.add({.step = 2, .peer = 1, .checkpoint_s = 20, .start_s = 10, .idle_s = 20});
  EXPECT_DOUBLE_EQ(total.goodput(), 0.6);
  EXPECT_DOUBLE_EQ(total.ettr(), 0.775);
  EXPECT_EQ(total.lines(),
            (std::vector<std::string>{
                "60.0 %, ETTR 77.5 %, of 200 peer-seconds",
                "useful 60.0 %, repeated 2.5 %, reduction 5.0 %, link 2.5 %, repair 5.0 %, "
                "checkpoint 10.0 %, start 5.0 %, idle 10.0 %"}));
}

TEST(GoodputTotal, WhatTookNoTimeIsNotNamed) {
  GoodputTotal total;
  total.add({.useful_s = 9, .idle_s = 1});
  ASSERT_EQ(total.lines().size(), 2u);
  EXPECT_EQ(total.lines()[1], "useful 90.0 %, idle 10.0 %");
}

TEST(GoodputTotal, OfAFileWithoutSuchRowsNothingIsTold) {
  EXPECT_TRUE(GoodputTotal().lines().empty());
  EXPECT_TRUE(std::isnan(GoodputTotal().goodput()));
}

}  // namespace
}  // namespace swarmpi::goodput_total_test
