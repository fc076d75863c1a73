#include "simulation/synthetic_compute.hpp"

#include <gtest/gtest.h>

#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::synthetic_compute_test {
namespace {

// One peer, one stage, two microbatches, about to reduce step 1.
class SyntheticComputeTest : public testing::Test {
 protected:
  SyntheticComputeTest() {
    plan_.train.microbatches = model_.microbatches = 2;
    plan_.tensor_names = {"tensor.0", "tensor.1"};
    plan_.tensor_elements = {4096, 10'000};
    plan_.stage_tensors = {{0, 1}};
    plan_.stage_costs = {1};
    record_->step = Step(0);
    record_->skipped = true;
    record_->next_exponents.assign(plan_.tensor_names.size(), 0);
    exponents_ = {record_, &record_->next_exponents};
    EXPECT_TRUE(compute_.execute(ApplyJob{StageId(0), record_, {}}).ok());
  }
  Result<JobResult> backward(std::int32_t microbatch, bool add) {
    BackwardJob job{{{Step(1), Purpose::train, microbatch}, StageId(0)}, {}, {}, exponents_};
    job.add = add;
    return compute_.execute(job);
  }
  Result<JobResult> reduce(std::vector<PartialSums> addends = {}) {
    ReduceJob job;
    job.addends = std::move(addends);
    job.step = Step(1);
    job.blocks = {0, 1};
    job.exponents = exponents_;
    job.tokens = 7;
    job.pass_on = true;
    return compute_.execute(job);
  }
  Result<JobResult> gather(Step step, const BlockRange& blocks) {
    GatherJob job;
    job.step = step;
    job.blocks = blocks;
    return compute_.execute(job);
  }

  RunPlan plan_;
  SyntheticModel model_;
  SyntheticArchive archive_;
  SyntheticCompute compute_{PeerId(0), plan_, model_, {}, archive_};
  std::shared_ptr<CommitRecord> record_ = std::make_shared<CommitRecord>();
  std::shared_ptr<const Exponents> exponents_;
};

TEST_F(SyntheticComputeTest, APassThatAddsNothingMayBeRepeatedAndLeavesTheSums) {
  ASSERT_TRUE(backward(0, true).ok());
  ASSERT_TRUE(backward(1, true).ok());
  const Result<JobResult> again = backward(1, false);
  ASSERT_TRUE(again.ok());
  const auto& result = get<BackwardResult>(again.value());
  EXPECT_TRUE(result.contributions.empty());
  EXPECT_GT(result.loss_nats, 0);
  EXPECT_TRUE(reduce().ok());
}

TEST_F(SyntheticComputeTest, APassThatIsAddedTwiceStandsInTheCover) {
  ASSERT_TRUE(backward(0, true).ok());
  ASSERT_TRUE(backward(1, true).ok());
  ASSERT_TRUE(backward(1, true).ok());
  const Result<JobResult> reduced = reduce();
  ASSERT_TRUE(reduced.ok()) << "it is for the core to refuse";
  EXPECT_EQ(get<ReduceResult>(reduced.value()).cover.microbatches, 3);
}

TEST_F(SyntheticComputeTest, SumsThatAreNotThoseOfTheirCoverAreFound) {
  ASSERT_TRUE(backward(0, true).ok());
  Cover other;
  other.add({Step(1), Purpose::train, 1});
  auto none = std::make_shared<Payload>(sizeof(std::uint64_t));
  *none->as<std::uint64_t>() = 0;
  const Result<JobResult> reduced = reduce({{none, other}});
  ASSERT_FALSE(reduced.ok());
  EXPECT_NE(reduced.status().message().find("microbatch 1 is missing"), std::string::npos);
}

TEST_F(SyntheticComputeTest, WeightsAreCheckedWhetherItAddsOrNot) {
  BackwardJob job{{{Step(2), Purpose::train, 0}, StageId(0)}, {}, {}, exponents_, false};
  EXPECT_FALSE(compute_.execute(job).ok()) << "step 1 is not applied";
}

TEST_F(SyntheticComputeTest, OnlyWhatIsInPlaceIsGathered) {
  EXPECT_FALSE(gather(Step(1), {0, 1}).ok()) << "nothing is reduced yet";
  ASSERT_TRUE(backward(0, true).ok());
  ASSERT_TRUE(backward(1, true).ok());
  const Result<JobResult> reduced = reduce();
  const Result<JobResult> gathered = gather(Step(1), {0, 1});
  ASSERT_TRUE(reduced.ok() && gathered.ok());
  const auto& made = *get<ReduceResult>(reduced.value()).gradient;
  const auto& taken = *get<GatherResult>(gathered.value()).gradient;
  EXPECT_EQ(*made.as<std::uint64_t>(), *taken.as<std::uint64_t>());
  EXPECT_FALSE(gather(Step(2), {0, 1}).ok()) << "that is the gradient of step 1";
  EXPECT_FALSE(gather(Step(1), {0, 2}).ok()) << "the next block is not there";
}

}  // namespace
}  // namespace swarmpi::synthetic_compute_test
