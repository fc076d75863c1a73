#include "simulation/hollow_compute.hpp"

#include <gtest/gtest.h>

#include "model/tensors.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi::hollow_compute_test {
namespace {

class Hollow : public testing::Test {
 protected:
  Hollow() {
    config.model.layers = 2;
    config.model.width = 64;
    config.swarm.stages = 2;
    config.train.microbatches = 4;
    plan = make_plan(config, partition_model(config), 2);
    model.emplace(config, plan);
  }
  HollowCompute compute(std::int32_t peer) { return {PeerId(peer), *model, {}}; }
  template <class Answer>
  static Answer answer(HollowCompute& compute, const Job& job) {
    Result<JobResult> result = compute.execute(job);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return get<Answer>(std::move(result).value());
  }
  static BackwardJob backward(std::int64_t step, std::int32_t index) {
    return {{{Step(step), Purpose::train, index}, StageId(1)}, nullptr, nullptr, nullptr, true};
  }

  Config config;
  RunPlan plan;
  std::optional<HollowModel> model;
};

TEST_F(Hollow, WhatCrossesABoundaryHasItsSizeAndNoMemory) {
  HollowCompute first = compute(0);
  const auto forward = answer<ForwardResult>(first, ForwardJob{{{Step(0)}, StageId(0)}, nullptr});
  EXPECT_EQ(size_of(forward.output), boundary_bytes(config).activations);
  EXPECT_EQ(forward.output->data(), nullptr);
  HollowCompute last = compute(1);
  const auto back = answer<BackwardResult>(last, backward(0, 0));
  EXPECT_EQ(size_of(back.input_gradient), boundary_bytes(config).gradients);
  EXPECT_EQ(back.contributions.size(), plan.stage_tensors[1].size());
  EXPECT_GT(back.loss_nats, 0);
}

TEST_F(Hollow, ASumKnowsWhatItIsOver) {
  HollowCompute one = compute(0), other = compute(1);
  for (const std::int32_t index : {0, 1}) (void)answer<BackwardResult>(one, backward(0, index));
  for (const std::int32_t index : {2, 3}) (void)answer<BackwardResult>(other, backward(0, index));
  const BlockRange blocks{0, 2};
  const auto share = answer<ShareResult>(one, ShareJob{{}, Step(0), StageId(1), 0, blocks, {}});
  EXPECT_EQ(share.partial.cover.microbatches, 2);
  const ReduceJob reduce{{}, Step(0), StageId(1), 0, blocks, {share.partial}, nullptr, 1, true, {}};
  const auto whole = answer<ReduceResult>(other, reduce);
  EXPECT_EQ(whole.cover, Cover::of_step(Step(0), 4));
  EXPECT_EQ(size_of(whole.gradient), 4 * model->elements(StageId(1), blocks));
  EXPECT_LT(size_of(share.partial.sums), 8 * model->elements(StageId(1), blocks))
      << "packed to the bits in use";
  const auto again = answer<BackwardResult>(other, backward(0, 3));
  EXPECT_NE(answer<ReduceResult>(other, reduce).cover, whole.cover) << "one was added twice";
  const auto placed =
      answer<PlaceResult>(one, PlaceJob{{}, Step(0), StageId(1), 0, blocks, whole.gradient});
  EXPECT_EQ(placed.hash, whole.hash);
}

TEST_F(Hollow, ReplicasAgreeAndALearnerHasWhatTheyHave) {
  HollowCompute one = compute(0), learner = compute(1);
  const auto record = std::make_shared<CommitRecord>();
  record->step = Step(0);
  const ApplyJob apply{StageId(1), record, {}};
  const auto applied = answer<ApplyResult>(one, apply);
  HollowCompute other = compute(2);
  EXPECT_EQ(answer<ApplyResult>(other, apply).hash, applied.hash);
  (void)answer<PrepareResult>(learner, PrepareJob{StageId(1), Step(0)});
  const BlockRange blocks{0, 3};
  const auto piece = answer<ReadResult>(one, ReadJob{StageId(1), blocks});
  EXPECT_EQ(size_of(piece.state), 3 * 4 * model->elements(StageId(1), blocks));
  WriteJob write{StageId(1), blocks, Step(0), piece.hash, piece.state, {}, {0}};
  const auto written = answer<WriteResult>(learner, write);
  EXPECT_TRUE(written.intact);
  EXPECT_EQ(written.tensor_hashes.at(0), applied.hash.tensors.at(0));
  write.hash ^= 1;
  EXPECT_FALSE(answer<WriteResult>(learner, write).intact);
}

TEST_F(Hollow, WhatTheProtocolMustNotDoIsAnError) {
  HollowCompute one = compute(0);
  const auto record = std::make_shared<CommitRecord>();
  record->step = Step(1);
  EXPECT_FALSE(one.execute(ApplyJob{StageId(1), record, {}}).ok()) << "step 0 was not applied";
  EXPECT_FALSE(one.execute(backward(2, 0)).ok()) << "on the weights before step 0";
  EXPECT_FALSE(one.save(Step(3), StageId(1)).ok());
}

}  // namespace
}  // namespace swarmpi::hollow_compute_test
