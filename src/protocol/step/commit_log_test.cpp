#include "protocol/step/commit_log.hpp"

#include <gtest/gtest.h>

#include "kernels/fixed_point.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::commit_log_test {
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

TEST(CommitLog, KnowsTheExponentsOfTheStepsThatMayBeOpen) {
  CommitLog commit_log(tiny_plan(1, 5), {});
  EXPECT_EQ(*commit_log.exponents(Step(0)), Exponents{kernels::kNoExponent});
  commit_log.add(commit(0, 3));
  EXPECT_EQ(*commit_log.exponents(Step(1)), Exponents{3});
  commit_log.add(commit(1, 4));
  EXPECT_EQ(*commit_log.exponents(Step(2)), Exponents{4});
  EXPECT_EQ(commit_log.state().applied_updates, 1);
  EXPECT_DEATH(commit_log.exponents(Step(1)), "the exponents of a step");
}

TEST(CommitLog, WithDelayedUpdatesTwoStepsMayBeOpen) {
  RunPlan plan = tiny_plan(1, 5);
  plan.train.updates = Updates::delayed;
  CommitLog commit_log(plan, {});
  commit_log.add(commit(0, 3, {{3}}));
  commit_log.add(commit(1, 5, {{3}}));
  EXPECT_EQ(*commit_log.exponents(Step(2)), Exponents{3});
  EXPECT_EQ(*commit_log.exponents(Step(3)), Exponents{5});
}

TEST(CommitLog, ASpareThatMissedSomeCommitsGoesOnFromTheNext) {
  CommitLog commit_log(tiny_plan(1, 9), {});
  commit_log.add(commit(0, 3));
  commit_log.add(commit(4, 7));
  EXPECT_EQ(commit_log.committed(), Step(4));
  EXPECT_EQ(*commit_log.exponents(Step(5)), Exponents{7});
}

// The next leader stores again the rows that may not be durable.
TEST(CommitLog, KeepsTheCommitsWhoseRowsMayBeLostAndAlwaysTheLast) {
  CommitLog commit_log(tiny_plan(1, 9), {});
  for (std::int64_t step = 0; step <= 3; ++step) commit_log.add(commit(step, 0));
  EXPECT_EQ(commit_log.commits().size(), 4u);
  commit_log.written(Step(1), Step(-1));
  EXPECT_EQ(commit_log.commits().begin()->first, Step(2));
  commit_log.written(Step(3), Step(2));
  EXPECT_EQ(commit_log.commits().size(), 1u);
  EXPECT_EQ(commit_log.commits().begin()->first, Step(3));
  EXPECT_EQ(commit_log.checkpointed(), Step(2));
  commit_log.written(Step(0), Step(0));  // from a leader that knows less
  EXPECT_EQ(commit_log.rows_written(), Step(3));
}

}  // namespace
}  // namespace swarmpi::commit_log_test
