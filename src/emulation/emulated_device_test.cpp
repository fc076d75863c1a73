#include "emulation/emulated_device.hpp"

#include <gtest/gtest.h>

#include "core/clock.hpp"
#include "model/local_trainer_test.hpp"

namespace swarmpi::test {
namespace {

// A pass takes 2 ms on it.
class EmulatedDeviceTest : public testing::Test {
 protected:
  Config config_ = tiny_deck();
  EmulatedDevice device_{config_, partition_model(config_.model, 1), {"some", 0, 0.002}};
};

TEST_F(EmulatedDeviceTest, LateJobsAreCounted) {
  EXPECT_EQ(device_.keep_pace(ForwardJob(), 0.0015), 0.002);
  EXPECT_EQ(unfaithful(device_.fidelity()), "");
  EXPECT_EQ(device_.keep_pace(BackwardJob(), 0.003), 0.003);
  const EmulatedDevice::Fidelity fidelity = device_.fidelity();
  EXPECT_EQ(fidelity.jobs, 2);
  EXPECT_EQ(fidelity.late_jobs, 1);
  EXPECT_DOUBLE_EQ(fidelity.modelled_s, 0.004);
  EXPECT_DOUBLE_EQ(fidelity.late_s, 0.001);
  EXPECT_EQ(unfaithful(fidelity),
            "the emulation was not faithful: 1 of 2 jobs took longer here than on their device, "
            "0.001 s beyond the 0.004 s that all should take: emulate slower devices, or a smaller "
            "model");
}

TEST_F(EmulatedDeviceTest, JobsThatMakeNoPassTakeWhatTheirKernelsTake) {
  EXPECT_EQ(device_.keep_pace(ApplyJob(), 0.001), 0.001);
  EXPECT_EQ(device_.fidelity().jobs, 0);
}

TEST_F(EmulatedDeviceTest, APassIsHeldUntilItsTimeIsOver) {
  EmulatedDevice slow(config_, partition_model(config_.model, 1), {"slow", 0, 0.05});
  EmulatedDevice slower(config_, partition_model(config_.model, 1), {"slower", 0, 1000});
  const WallClock clock;
  EXPECT_EQ(slow.keep_pace(ForwardJob(), 0.01), 0.05);
  EXPECT_GE(clock.now_s(), 0.04);
  slower.abandon();
  EXPECT_EQ(slower.keep_pace(ForwardJob(), 0), 1000) << "an abandoned device is not waited for";
  EXPECT_LT(clock.now_s(), 500);
}

}  // namespace
}  // namespace swarmpi::test
