#include "report/skip_notices.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace swarmpi::skip_notices_test {
namespace {

EventRow skip(std::int64_t step, const std::string& names) {
  return {1, step, EventKind::skip, 0, -1, 0, "infinite, NaN or overflowing gradients:" + names};
}

TEST(SkipNotices, TheFirstSaysHowManyTensorsAndWhatToDo) {
  TrainConfig train;
  train.lr = 30000;
  train.warmup_steps = 5;
  train.clip = 1;
  const auto told = SkipNotices(train).told(skip(2, " embedding.tokens layer.0.norm1.weight"));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->step, 2);
  EXPECT_EQ(told->detail,
            "infinite, NaN or overflowing gradients of 2 tensors: the step changes no weights. If "
            "more follow, lower train.lr (30000), raise train.warmup_steps (5) or lower train.clip "
            "(1)");
}

TEST(SkipNotices, WithoutClippingTheyAdviseIt) {
  TrainConfig train;
  train.clip = 0;
  const auto told = SkipNotices(train).told(skip(2, " head.weight"));
  EXPECT_NE(told->detail.find("gradients of 1 tensor:"), std::string::npos) << told->detail;
  EXPECT_NE(told->detail.find("or set train.clip = 1"), std::string::npos) << told->detail;
}

TEST(SkipNotices, LaterOnesAreToldMoreAndMoreRarelyWithTheirNumber) {
  const TrainConfig train;
  SkipNotices notices(train);
  std::vector<std::int64_t> steps;
  std::string last;
  for (std::int64_t step = 1; step <= 5000; ++step) {
    const auto told = notices.told(skip(step, " head.weight"));
    if (!told) continue;
    steps.push_back(step);
    last = told->detail;
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 10, 100, 1000}));
  EXPECT_EQ(last.find("1000 steps skipped by now"), 0u) << last;
  EXPECT_NE(last.find("lower train.lr"), std::string::npos) << last;
}

}  // namespace
}  // namespace swarmpi::skip_notices_test
