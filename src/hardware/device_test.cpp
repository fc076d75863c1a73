#include "hardware/device.hpp"

#include <gtest/gtest.h>

namespace swarmpi {
namespace {

TEST(Device, TheDeckGivesEachPeerItsDevice) {
  Config config;
  config.devices = {{"brisk", 50, 0.0}, {"slow", 0, 0.05}};
  config.peer_classes = {{{1, 4}, "slow"}, {{2}, "brisk"}};
  EXPECT_EQ(device_of(config, PeerId(4))->name, "slow");
  EXPECT_EQ(device_of(config, PeerId(2))->name, "brisk");
  EXPECT_FALSE(device_of(config, PeerId(3)).has_value());
}

TEST(Device, TheDeckGivesSomePeersTheirKernels) {
  Config config;
  config.compute.kernels = Kernels::cuda;
  config.peer_classes = {{{1, 4}, "", PeerKernels::native}, {{2}, "slow", PeerKernels::as_all}};
  EXPECT_EQ(kernels_of(config, PeerId(4)), Kernels::native);
  EXPECT_EQ(kernels_of(config, PeerId(2)), Kernels::cuda);
  EXPECT_EQ(kernels_of(config, PeerId(3)), Kernels::cuda);
}

TEST(Device, AJobTakesItsFlopsAtTheDevicesRateAndTheOverhead) {
  EXPECT_DOUBLE_EQ(device_s({"slow", 2, 0.5}, 3e9), 2);
}

TEST(Device, WithoutARateAJobTakesTheOverheadAlone) {
  EXPECT_DOUBLE_EQ(device_s({"constant", 0, 0.05}, 3e9), 0.05);
}

TEST(Device, AMessageTakesTheLatencyAndItsBytesAtTheLinksRate) {
  EXPECT_DOUBLE_EQ(link_s(0.25, 1e6, 500'000), 0.75);
}

}  // namespace
}  // namespace swarmpi
