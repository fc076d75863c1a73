#include "emulation/emulated_device.hpp"

#include <gtest/gtest.h>

#include "core/clock.hpp"
#include "model/local_trainer_test.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"

namespace swarmpi::test::emulated_device_test {
namespace {

// Kernels that take so long, without sleeping, or fail.
struct FakeKernels final : JobRunner {
  Result<JobFinished> run(const Job&) override {
    if (!status.ok()) return status;
    return JobFinished{result, takes_s};
  }
  JobResult result = DropResult();
  double takes_s = 0;
  Status status;
};

// A pass takes 2 ms on it.
class EmulatedDeviceTest : public testing::Test {
 protected:
  // How long a job takes on the device whose kernels take so long.
  double takes(EmulatedDevice& device, const Job& job, double kernels_s) {
    kernels_.takes_s = kernels_s;
    return device.run(job).value().duration_s;
  }

  Config config_ = tiny_deck();
  FakeKernels kernels_;
  EmulatedDevice device_{kernels_, config_, partition_model(config_.model, 1), {"some", 0, 0.002}};
};

TEST_F(EmulatedDeviceTest, LateJobsAreCounted) {
  EXPECT_EQ(takes(device_, ForwardJob(), 0.0015), 0.002);
  EXPECT_TRUE(is_faithful(device_.fidelity()));
  EXPECT_EQ(text_of(device_.fidelity()),
            "the emulation was faithful: 0 of 1 jobs took longer here than on their device, 0 s "
            "beyond the 0.002 s that all should take");
  EXPECT_EQ(takes(device_, BackwardJob(), 0.003), 0.003);
  const EmulatedDevice::Fidelity fidelity = device_.fidelity();
  EXPECT_EQ(fidelity.jobs, 2);
  EXPECT_EQ(fidelity.late_jobs, 1);
  EXPECT_DOUBLE_EQ(fidelity.modelled_s, 0.004);
  EXPECT_DOUBLE_EQ(fidelity.late_s, 0.001);
  EXPECT_FALSE(is_faithful(fidelity));
  EXPECT_EQ(text_of(fidelity),
            "the emulation was not faithful: 1 of 2 jobs took longer here than on their device, "
            "0.001 s beyond the 0.004 s that all should take: emulate slower devices, or a smaller "
            "model");
}

TEST_F(EmulatedDeviceTest, JobsThatMakeNoPassTakeWhatTheirKernelsTake) {
  EXPECT_EQ(takes(device_, ApplyJob(), 0.001), 0.001);
  EXPECT_EQ(device_.fidelity().jobs, 0);
}

TEST_F(EmulatedDeviceTest, AForwardPassThatWasDoneAgainIsCharged) {
  const auto stages = partition_model(config_.model, 2);
  EmulatedDevice device(kernels_, config_, stages, {"slow", 1, 0});
  BackwardResult result;
  kernels_.result = result;
  const double kept_s = takes(device, BackwardJob(), 0);
  result.with_forward = true;
  kernels_.result = result;
  EXPECT_DOUBLE_EQ(takes(device, BackwardJob(), 0), 1.5 * kept_s);
}

TEST_F(EmulatedDeviceTest, AJobThatFailsIsNotHeld) {
  kernels_.status = Status::failed("the file is gone");
  EXPECT_EQ(device_.run(ForwardJob()).status().message(), "the file is gone");
  EXPECT_EQ(device_.fidelity().jobs, 0);
}

TEST_F(EmulatedDeviceTest, APassIsHeldUntilItsTimeIsOver) {
  EmulatedDevice slow(kernels_, config_, partition_model(config_.model, 1), {"slow", 0, 0.05});
  EmulatedDevice slower(kernels_, config_, partition_model(config_.model, 1), {"slower", 0, 1000});
  const WallClock clock;
  EXPECT_EQ(takes(slow, ForwardJob(), 0.01), 0.05);
  EXPECT_GE(clock.now_s(), 0.04);
  slower.abandon();
  EXPECT_EQ(takes(slower, ForwardJob(), 0), 1000) << "an abandoned device is not waited for";
  EXPECT_LT(clock.now_s(), 500);
}

}  // namespace
}  // namespace swarmpi::test::emulated_device_test
