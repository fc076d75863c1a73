#include "swarm/chronicle.hpp"

#include <gtest/gtest.h>

#include "swarm/fake_world_test.hpp"

namespace swarmpi {
namespace {

using testing::tiny_plan;

CommitRef commit(std::int64_t step, std::int16_t exponent, std::vector<Exponents> between = {}) {
  auto record = std::make_shared<CommitRecord>();
  record->step = Step(step);
  record->applied_updates = step;
  record->time_s = static_cast<double>(step);
  record->next_exponents = {exponent};
  record->exponents_between = std::move(between);
  return record;
}

TEST(Chronicle, KnowsTheExponentsOfTheStepsThatMayBeOpen) {
  Chronicle chronicle(tiny_plan(1, 5), {});
  EXPECT_EQ(*chronicle.exponents(Step(0)), Exponents{kernels::kNoExponent});
  chronicle.add(commit(0, 3));
  EXPECT_EQ(*chronicle.exponents(Step(1)), Exponents{3});
  chronicle.add(commit(1, 4));
  EXPECT_EQ(*chronicle.exponents(Step(2)), Exponents{4});
  EXPECT_EQ(chronicle.state().applied_updates, 1);
  EXPECT_DEATH(chronicle.exponents(Step(1)), "the exponents of a step");
}

TEST(Chronicle, WithDelayedUpdatesTwoStepsMayBeOpen) {
  RunPlan plan = tiny_plan(1, 5);
  plan.train.updates = "delayed";
  Chronicle chronicle(plan, {});
  chronicle.add(commit(0, 3, {{3}}));
  chronicle.add(commit(1, 5, {{3}}));
  EXPECT_EQ(*chronicle.exponents(Step(2)), Exponents{3});
  EXPECT_EQ(*chronicle.exponents(Step(3)), Exponents{5});
}

TEST(Chronicle, ASpareThatMissedSomeCommitsGoesOnFromTheNext) {
  Chronicle chronicle(tiny_plan(1, 9), {});
  chronicle.add(commit(0, 3));
  chronicle.add(commit(4, 7));
  EXPECT_EQ(chronicle.committed(), Step(4));
  EXPECT_EQ(*chronicle.exponents(Step(5)), Exponents{7});
}

// Whoever leads next writes again what may not be written.
TEST(Chronicle, KeepsTheCommitsWhoseRowsMayBeLostAndAlwaysTheLast) {
  Chronicle chronicle(tiny_plan(1, 9), {});
  for (std::int64_t step = 0; step <= 3; ++step) chronicle.add(commit(step, 0));
  EXPECT_EQ(chronicle.commits().size(), 4u);
  chronicle.written(Step(1), Step(-1));
  EXPECT_EQ(chronicle.commits().begin()->first, Step(2));
  chronicle.written(Step(3), Step(2));
  EXPECT_EQ(chronicle.commits().size(), 1u);
  EXPECT_EQ(chronicle.commits().begin()->first, Step(3));
  EXPECT_EQ(chronicle.checkpointed(), Step(2));
  chronicle.written(Step(0), Step(0));  // of a leader that knows less
  EXPECT_EQ(chronicle.rows_written(), Step(3));
}

}  // namespace
}  // namespace swarmpi
