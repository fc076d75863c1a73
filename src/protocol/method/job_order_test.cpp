#include "protocol/method/job_order.hpp"

#include <gtest/gtest.h>

#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::job_order_test {
namespace {

WorkId work(std::int32_t index, std::int32_t stage = 0, std::int64_t step = 1) {
  return {{Step(step), Purpose::train, index}, StageId(stage)};
}
WorkId validation(std::int32_t index) { return {{Step(1), Purpose::validate, index}, StageId(0)}; }

// Two stages, five microbatches a step.
struct Order {
  explicit Order(Method method) : plan(testing::tiny_plan(2, 3)) {
    plan.swarm.method = method;
    order = make_job_order(plan);
  }
  RunPlan plan;
  std::unique_ptr<JobOrder> order;
};

TEST(GPipe, TheFirstBackwardPassWaitsForAllForwardPassesOfItsPipeline) {
  Order of(Method::gpipe);
  of.order->set_share({1, 2});  // microbatches 1 and 3
  of.order->forward_done(work(1));
  EXPECT_FALSE(of.order->may_begin_backward(work(1)));
  of.order->forward_done(work(3));
  EXPECT_TRUE(of.order->may_begin_backward(work(1)));
  EXPECT_FALSE(of.order->may_begin_backward(work(1, 0, 2))) << "those of another step";
}

TEST(GPipe, WhereTheLastStagesPassesAreOneJobNothingWaits) {
  Order of(Method::gpipe);
  of.order->set_share({0, 1});
  EXPECT_TRUE(of.order->may_begin_backward(work(0, 1)));
}

TEST(GPipe, APeerOfSeveralStagesWaitsInEachByItself) {
  Order of(Method::gpipe);
  of.plan.stage_tensors.push_back({0});  // three stages, the first two of this peer
  of.order->set_share({0, 1});
  for (std::int32_t i = 0; i < 5; ++i) of.order->forward_done(work(i, 1));
  EXPECT_TRUE(of.order->may_begin_backward(work(0, 1)));
  EXPECT_FALSE(of.order->may_begin_backward(work(0, 0)));
}

TEST(GPipe, ValidationIsNotCounted) {
  Order of(Method::gpipe);
  of.order->set_share({0, 5});
  of.order->forward_done(validation(0));
  EXPECT_FALSE(of.order->may_begin_backward(work(0)));
}

TEST(GPipe, PipelinesThatADeathBreaksStayWhatTheyAreUntilAllGoBack) {
  Order of(Method::gpipe);
  of.order->set_share({0, 5});
  of.order->set_share({0, 1});
  of.order->forward_done(work(0));
  EXPECT_TRUE(of.order->may_begin_backward(work(0)));
}

TEST(OneForwardOneBackward, AsManyAreOpenAsThereAreStages) {
  Order of(Method::one_f_one_b);
  for (const std::int32_t index : {0, 1}) {
    EXPECT_TRUE(of.order->may_begin_forward(work(index)));
    of.order->forward_done(work(index));
  }
  EXPECT_FALSE(of.order->may_begin_forward(work(2)));
  EXPECT_TRUE(of.order->may_begin_forward(validation(0))) << "validation rides along";
  of.order->backward_done(work(0));
  EXPECT_TRUE(of.order->may_begin_forward(work(2)));
  EXPECT_TRUE(of.order->may_begin_backward(work(1)));
}

TEST(OneForwardOneBackward, ALaterStageMayHaveFewerOpen) {
  Order of(Method::one_f_one_b);
  of.plan.stage_tensors.push_back({0});  // three stages
  EXPECT_TRUE(of.order->may_begin_forward(work(0, 1)));
  of.order->forward_done(work(0, 1));
  of.order->forward_done(work(1, 1));
  EXPECT_FALSE(of.order->may_begin_forward(work(2, 1)));
  EXPECT_TRUE(of.order->may_begin_forward(work(3, 0))) << "each stage counts its own";
  of.order->backward_done(work(0, 1));
  EXPECT_TRUE(of.order->may_begin_forward(work(2, 1)));
}

TEST(OtherMethods, NoPassWaitsForAnother) {
  for (const Method method : {Method::swarm, Method::data_parallel}) {
    Order of(method);
    for (std::int32_t i = 0; i < 5; ++i) of.order->forward_done(work(i));
    EXPECT_TRUE(of.order->may_begin_forward(work(5)));
    EXPECT_TRUE(of.order->may_begin_backward(work(6)));
  }
}

}  // namespace
}  // namespace swarmpi::job_order_test
