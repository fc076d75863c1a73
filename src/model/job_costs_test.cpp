#include "model/job_costs.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "hardware/device.hpp"
#include "model/cost.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi::job_costs_test {
namespace {

Config deck() {
  Config config;
  config.model.layers = 2;
  config.model.width = 64;
  config.model.context = 32;
  config.swarm.stages = 2;
  config.train.microbatch_size = 2;
  return config;
}

TEST(JobCosts, PassesTakeTheTimeOfTheirFlopsAndTheOverhead) {
  const Config config = deck();
  const auto stages = partition_model(config.model, 2);
  const JobCosts costs(config, stages);
  const DeviceConfig device{"some", 2, 0.25};
  BackwardJob backward;
  backward.work.stage = StageId(1);
  EXPECT_DOUBLE_EQ(costs.seconds(device, backward, BackwardResult{}),
                   0.25 + job_flops(config, stages[1], backward, BackwardResult{}) / 2e9);
  EXPECT_DOUBLE_EQ(costs.seconds(device, ForwardJob{}, ForwardResult{}),
                   0.25 + job_flops(config, stages[0], ForwardJob{}, ForwardResult{}) / 2e9);
}

TEST(JobCosts, WithoutARateOfMemoryOtherJobsTakeNoTimeOfTheDevice) {
  const Config config = deck();
  const JobCosts costs(config, partition_model(config.model, 2));
  for (const Job& job : {Job(ReduceJob{}), Job(GatherJob{}), Job(ApplyJob{}), Job(ReadJob{})}) {
    EXPECT_EQ(costs.seconds({"some", 2, 0.25}, job, DropResult{}), 0);
  }
}

TEST(JobCosts, OtherJobsPassOverMemory) {
  const Config config = deck();
  const JobCosts costs(config, partition_model(config.model, 2));
  const DeviceConfig device{.name = "some", .gflops = 2, .memory_gb_per_s = 1e-9};  // 1 byte/s
  const auto all = static_cast<double>(costs.elements_in(StageId(0)));
  ApplyJob apply;
  apply.record = std::make_shared<CommitRecord>();
  EXPECT_DOUBLE_EQ(costs.seconds(device, apply, DropResult{}), kUpdateBytes * all);
  auto skipped = std::make_shared<CommitRecord>();
  skipped->skipped = true;
  apply.record = skipped;
  EXPECT_EQ(costs.seconds(device, apply, DropResult{}), 0);

  ReduceJob reduce;
  reduce.blocks = {0, 2};  // of 4096 elements
  reduce.addends.resize(3);
  EXPECT_DOUBLE_EQ(costs.seconds(device, reduce, DropResult{}),
                   2 * 4096 * (kSumBytes + 3 * kAddendBytes));
  PlaceJob place;
  place.blocks = {0, 1};
  EXPECT_DOUBLE_EQ(costs.seconds(device, place, DropResult{}), 4096 * kCopyBytes);
  EXPECT_EQ(costs.seconds(device, DropJob{}, DropResult{}), 0);
}

TEST(JobCosts, CodecsPassOverTheValuesOfBothBoundaries) {
  Config config = deck();
  const auto stages = partition_model(config.model, 2);
  const DeviceConfig device{.name = "some", .gflops = 1e12, .memory_gb_per_s = 1};
  const double plain_s = JobCosts(config, stages).seconds(device, ForwardJob{}, ForwardResult{});
  config.swarm.compress_activations = Codec::blockwise8;
  const double coded_s = JobCosts(config, stages).seconds(device, ForwardJob{}, ForwardResult{});
  EXPECT_DOUBLE_EQ(coded_s - plain_s, kCodecBytes * 2 * 32 * 64 / 1e9);
}

}  // namespace
}  // namespace swarmpi::job_costs_test
