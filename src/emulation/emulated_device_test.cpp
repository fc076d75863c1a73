#include "emulation/emulated_device.hpp"

#include <gtest/gtest.h>

#include "core/clock.hpp"
#include "model/cost.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi::test {
namespace {

Config emulated_deck() {
  Config config = tiny_deck();
  config.compute.fidelity = Fidelity::emulated;
  config.devices = {{"brisk", 50, 0.0}, {"slow", 0, 0.05}};
  config.peer_classes = {{{1, 4}, "slow"}, {{2}, "brisk"}};
  return config;
}

TEST(EmulatedDevice, TheDeckGivesEachPeerItsDevice) {
  Config config = emulated_deck();
  EXPECT_EQ(device_of(config, PeerId(4))->name, "slow");
  EXPECT_EQ(device_of(config, PeerId(2))->name, "brisk");
  EXPECT_FALSE(device_of(config, PeerId(3)).has_value());
  config.compute.fidelity = Fidelity::real;
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
            "0.001 s beyond the 0.004 s that all should take: emulate slower devices, or a smaller "
            "model");
}

TEST(EmulatedDevice, AJobIsHeldUntilItsTimeIsOver) {
  const Config config = emulated_deck();
  EmulatedDevice device(config, partition_model(config.model, 1), {"slow", 0, 0.05});
  const WallClock clock;
  EXPECT_EQ(device.keep_pace(0.05, 0.01), 0.05);
  EXPECT_GE(clock.now_s(), 0.04);
  device.abandon();
  EXPECT_EQ(device.keep_pace(1000, 0), 1000) << "an abandoned device is not waited for";
  EXPECT_LT(clock.now_s(), 500);
}

}  // namespace
}  // namespace swarmpi::test
