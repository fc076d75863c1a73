#include "hardware/device.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

TEST(Device, AJobTakesItsFlopsAtTheDevicesRateAndTheOverhead) {
  EXPECT_DOUBLE_EQ(device_s({"slow", 2, 0.5}, 3e9), 2);
}

TEST(Device, WithoutARateAJobTakesTheOverheadAlone) {
  EXPECT_DOUBLE_EQ(device_s({"constant", 0, 0.05}, 3e9), 0.05);
}

}  // namespace
}  // namespace swarmpi
