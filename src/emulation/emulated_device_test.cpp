#include "emulation/emulated_device.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include "model/cost.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi::test {
namespace {

Config emulated_deck() {
  Config config = tiny_deck();
  config.compute.fidelity = "emulated";
  config.devices = {{"brisk", 50, 0.0}, {"slow", 0, 0.05}};
  config.peer_classes = {{{1, 4}, "slow"}, {{2}, "brisk"}};
  return config;
}

TEST(EmulatedDevice, TheDeckSaysWhichPeerHasWhich) {
  Config config = emulated_deck();
  EXPECT_EQ(device_of(config, PeerId(4))->name, "slow");
  EXPECT_EQ(device_of(config, PeerId(2))->name, "brisk");
  EXPECT_FALSE(device_of(config, PeerId(3)).has_value());
  config.compute.fidelity = "real";
  EXPECT_FALSE(device_of(config, PeerId(4)).has_value());
}

TEST(EmulatedDevice, PassesTakeTheTimeOfTheirFlops) {
  const Config config = emulated_deck();
  const auto specs = partition_model(config.model, 2);
  const EmulatedDevice device(config, specs, {"some", 2, 0.25});
  BackwardJob backward;
  backward.work.stage = StageId(1);
  EXPECT_DOUBLE_EQ(device.job_s(backward), 0.25 + job_flops(config, specs[1], backward) / 2e9);
  ForwardJob forward;
  EXPECT_DOUBLE_EQ(device.job_s(forward), 0.25 + job_flops(config, specs[0], forward) / 2e9);
  EXPECT_EQ(device.job_s(ReduceJob{}), 0);
  EXPECT_EQ(device.job_s(GatherJob{}), 0);
  EXPECT_EQ(device.job_s(ApplyJob{}), 0);
  for (const Job& job : {Job(PrepareJob{}), Job(ReadJob{}), Job(WriteJob{}), Job(DropJob{})}) {
    EXPECT_EQ(device.job_s(job), 0);
  }
}

TEST(EmulatedDevice, LateJobsAreCounted) {
  const Config config = emulated_deck();
  EmulatedDevice device(config, partition_model(config.model, 1), {"some", 1, 0});
  EXPECT_EQ(device.keep_pace(0.002, 0.0015), 0.002);
  EXPECT_EQ(unfaithful(device.fidelity()), "");
  EXPECT_EQ(device.keep_pace(0.002, 0.003), 0.003);
  const EmulatedDevice::Fidelity fidelity = device.fidelity();
  EXPECT_EQ(fidelity.jobs, 2);
  EXPECT_EQ(fidelity.late_jobs, 1);
  EXPECT_DOUBLE_EQ(fidelity.modelled_s, 0.004);
  EXPECT_DOUBLE_EQ(fidelity.late_s, 0.001);
  EXPECT_EQ(unfaithful(fidelity),
            "the emulation was not faithful: 1 of 2 jobs took longer here than on their device, "
            "0.001 s beyond the 0.004 s that all should take");
}

struct Scene {
  explicit Scene(EmulatedDevice* device = nullptr) {
    compute = std::make_unique<StageCompute>(executor, *backend, clock, inbox, device);
  }
  static std::vector<std::unique_ptr<StageModel>> made(const Config& config,
                                                       kernels::Backend& backend) {
    std::vector<std::unique_ptr<StageModel>> stages;
    stages.push_back(
        std::make_unique<StageModel>(config, partition_model(config.model, 1).front(), backend, 0));
    stages.back()->initialize();
    return stages;
  }
  Event next_event() {
    pollfd waited{inbox.descriptor(), POLLIN, 0};
    EXPECT_EQ(poll(&waited, 1, 10'000), 1);
    return inbox.take().value();
  }

  Config config = emulated_deck();
  std::unique_ptr<kernels::Backend> backend = ready_backend(config);
  Status read = Status();
  PayloadPool payloads;
  JobExecutor executor{config,
                       [this](const MicrobatchId&, std::span<std::int32_t>,
                              std::span<std::int32_t>) { return read; },
                       payloads, made(config, *backend)};
  WallClock clock;
  Inbox inbox;
  std::unique_ptr<StageCompute> compute;
};

ForwardJob validation() { return {{{Step(1), Purpose::validate, 0}, StageId(0)}, nullptr}; }

TEST(StageCompute, EveryJobIsAnsweredInOrder) {
  Scene scene;
  for (std::int32_t m = 0; m < 5; ++m) {
    ForwardJob job = validation();
    job.work.microbatch.index = m;
    scene.compute->start(job);
  }
  for (std::int32_t m = 0; m < 5; ++m) {
    const auto finished = std::get<JobFinished>(scene.next_event());
    const auto result = std::get<ForwardResult>(finished.result);
    EXPECT_EQ(result.work.microbatch.index, m);
    EXPECT_GT(result.loss_nats, 0);
    EXPECT_GT(finished.duration_s, 0);
  }
}

TEST(StageCompute, DataThatCannotBeReadEndTheRun) {
  Scene scene;
  scene.read = Status::failed("the file is gone");
  scene.compute->start(validation());
  EXPECT_EQ(std::get<StorageFailed>(scene.next_event()).status.message(), "the file is gone");
}

TEST(StageCompute, AnEmulatedDevicesTimeIsKept) {
  const Config config = emulated_deck();
  EmulatedDevice device(config, partition_model(config.model, 1), {"slow", 0, 0.05});
  Scene scene(&device);
  const double start_s = scene.clock.now_s();
  scene.compute->start(validation());
  scene.compute->start(validation());
  for (int i = 0; i < 2; ++i) {
    EXPECT_GE(std::get<JobFinished>(scene.next_event()).duration_s, 0.05);
  }
  EXPECT_GE(scene.clock.now_s() - start_s, 0.1);
  EXPECT_EQ(device.fidelity().jobs, 2);

  CommitRecord record;
  record.skipped = true;
  scene.compute->start(ApplyJob{StageId(0), std::make_shared<CommitRecord>(record), {}});
  scene.next_event();
  EXPECT_EQ(device.fidelity().jobs, 2) << "an update takes what it takes";
}

}  // namespace
}  // namespace swarmpi::test
