#include "emulation/hollow_peer.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "model/boundary.hpp"
#include "model/local_trainer_test.hpp"
#include "model/make_backend.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"
#include "protocol/step/commit_record.hpp"
#include "runtime/assembly.hpp"

namespace swarmpi::test::hollow_peer_test {
namespace {

class HollowPeerTest : public testing::Test {
 protected:
  static Config deck() {
    Config config = tiny_deck();
    config.swarm.stages = 2;
    config.compute.kernels = Kernels::none;
    config.compute.fidelity = Fidelity::emulated;
    return config;
  }

  const Config config_ = deck();
  const std::unique_ptr<kernels::Backend> backend_ = std::move(make_backend(config_)).value();
  HollowPeer peer_{PeerId(1), config_, make_plan(config_, partition_model(config_), 2),
                   ResumeState(), *backend_};
};

TEST_F(HollowPeerTest, APassAnswersWithASizeWithoutMemory) {
  const Result<JobFinished> finished = peer_.run(ForwardJob{{{Step(0)}, StageId(0)}, nullptr});
  ASSERT_TRUE(finished.ok()) << finished.status().message();
  EXPECT_EQ(finished.value().duration_s, 0);
  const PayloadRef output = get<ForwardResult>(finished.value().result).output;
  EXPECT_EQ(size_of(output), boundary_bytes(config_).activations);
  EXPECT_EQ(output->data(), nullptr);
}

TEST_F(HollowPeerTest, AJobThatDoesNotFitTheBooksIsAnError) {
  ApplyJob apply;
  auto record = std::make_shared<CommitRecord>();
  record->step = Step(7);
  apply.record = record;
  EXPECT_FALSE(peer_.run(apply).ok()) << "the stage stands before step 0";
}

TEST_F(HollowPeerTest, StorageIsToldOfStagesAsTheyStand) {
  EXPECT_FALSE(peer_.tensor_hashes(Step(3), StageId(0)).ok());
  ResumeState state;
  state.step = 3;
  ASSERT_TRUE(peer_.load(StageId(0), state).ok());
  const auto hashes = peer_.tensor_hashes(Step(3), StageId(0));
  ASSERT_TRUE(hashes.ok()) << hashes.status().message();
  EXPECT_EQ(hashes.value().size(), partition_model(config_)[0].tensors.size());
}

}  // namespace
}  // namespace swarmpi::test::hollow_peer_test
