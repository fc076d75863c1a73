#include "protocol/step/run_rows.hpp"

#include <gtest/gtest.h>

#include "protocol/step/commit_record.hpp"
#include "protocol/tiny_plan_test.hpp"

namespace swarmpi::run_rows_test {
namespace {

using testing::tiny_plan;

AgreedStep agreed(std::int64_t step, double time_s) {
  auto record = std::make_shared<CommitRecord>();
  record->step = Step(step);
  record->time_s = time_s;
  record->tokens = 100;
  // Peer 1 is three times slower than peer 0.
  return {record,
          7,
          0,
          {PeerRow{.peer = 0, .compute_s = 2, .microbatches = 3, .useful_s = 1},
           PeerRow{.peer = 1, .compute_s = 3, .repeated = 1, .microbatches = 2, .useful_s = 1}}};
}

TEST(RunRows, AStepHasARowOfItsOwnAndOneForEachPeerAndTheThroughputSinceTheRowBefore) {
  const RunPlan plan = tiny_plan(1, 9);
  RunRows run_rows(plan, 10);
  View view;
  for (const std::int32_t id : {0, 1}) view.serve(PeerId(id), StageId(0));
  const auto rows = run_rows.of(agreed(3, 12), 5, view);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(std::get<StepRow>(rows[0]).state_hash, 7u);
  EXPECT_EQ(std::get<StepRow>(rows[0]).incarnation, 5);
  EXPECT_EQ(std::get<PeerRow>(rows[2]).compute_s, 3);
  EXPECT_EQ(std::get<ThroughputRow>(rows[3]).tokens_per_s, 50);
  EXPECT_EQ(std::get<ThroughputRow>(rows[3]).fraction_of_ideal,
            50.0 / (4.0 * static_cast<double>(plan.tokens_per_microbatch)));
  EXPECT_EQ(std::get<ThroughputRow>(rows[3]).fraction_of_capacity, 1);
  run_rows.go_on_from(20);  // a new leader: its clock may be behind
  EXPECT_EQ(run_rows.of(agreed(4, 20), 5, view).size(), 3u) << "no time has passed";
}

TEST(RunRows, AStepIsWrittenOnceItsLastRowIsDurable) {
  const RunPlan plan = tiny_plan(1, 9);
  RunRows run_rows(plan, 0);
  EXPECT_TRUE(run_rows.all_durable());
  for (const std::int64_t number : {1, 2}) {
    EXPECT_EQ(run_rows.numbered(EventRow{}).number, number);
  }
  run_rows.all_stored(Step(1), Step(0));
  run_rows.numbered(EventRow{});
  run_rows.all_stored(Step(1), Step(0));  // the third is of the next step
  run_rows.numbered(EventRow{});
  run_rows.all_stored(Step(2), Step(0));
  EXPECT_FALSE(run_rows.durable(1));
  EXPECT_EQ(run_rows.durable(3), Step(1));
  EXPECT_FALSE(run_rows.all_durable());
  EXPECT_EQ(run_rows.durable(4), Step(2));
  EXPECT_TRUE(run_rows.all_durable());
}

// Another leader had stored them.
TEST(RunRows, AStepThatIsWrittenAlreadyIsNotToldAgain) {
  const RunPlan plan = tiny_plan(1, 9);
  RunRows run_rows(plan, 0);
  run_rows.numbered(EventRow{});
  run_rows.all_stored(Step(4), Step(4));
  EXPECT_FALSE(run_rows.durable(1));
}

TEST(RunRows, AValidationWaitsForItsStateAndForThePassesBeforeIt) {
  const RunPlan plan = tiny_plan(1, 3);
  RunRows run_rows(plan, 0);
  run_rows.add_validation(Step(2), {.step = 1});
  run_rows.add_validation(Step(5), {.step = 4});  // of a pass after the last step
  EXPECT_TRUE(run_rows.take_validations(Step(1), Step(2)).empty()) << "its state is not agreed on";
  EXPECT_EQ(run_rows.take_validations(Step(2), Step(3)).size(), 1u);
  EXPECT_TRUE(run_rows.take_validations(Step(3), Step(4)).empty()) << "the pass before is open";
  EXPECT_TRUE(run_rows.validations_waiting());
  const auto rows = run_rows.take_validations(Step(3), std::nullopt);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.front().step, 4);
  EXPECT_FALSE(run_rows.validations_waiting());
}

TEST(RunRows, WhereAHistoryIsLeftItsStepsAreNeverWrittenButNumbersGoOn) {
  const RunPlan plan = tiny_plan(1, 3);
  RunRows run_rows(plan, 0);
  run_rows.numbered(EventRow{});
  run_rows.all_stored(Step(1), Step(0));
  run_rows.add_validation(Step(2), {});
  run_rows.leave_history();
  EXPECT_FALSE(run_rows.validations_waiting());
  EXPECT_FALSE(run_rows.durable(1));
  EXPECT_EQ(run_rows.numbered(EventRow{}).number, 2);
}

}  // namespace
}  // namespace swarmpi::run_rows_test
