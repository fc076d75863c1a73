#include "hardware/device.hpp"

#include <gtest/gtest.h>

namespace swarmpi::device_test {
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

TEST(Device, ARowWithoutIdsIsOfAllPeersThatNoOtherRowNames) {
  Config config;
  config.devices = {{"brisk", 50}, {"slow", 2}};
  config.links = {{"home"}};
  config.peer_classes = {{{}, "slow", PeerKernels::as_all, "home"}, {{1}, "brisk"}};
  EXPECT_EQ(device_of(config, PeerId(0))->name, "slow");
  EXPECT_EQ(device_of(config, PeerId(1))->name, "brisk");
  EXPECT_EQ(link_of(config, PeerId(70'000))->name, "home");
  EXPECT_FALSE(link_of(config, PeerId(1)).has_value());
}

TEST(Device, AJobTakesItsFlopsAtTheDevicesRateAndTheOverhead) {
  EXPECT_DOUBLE_EQ(device_s({"slow", 2, 0.5}, 3e9, 64), 2);
}

TEST(Device, WithoutARateAJobTakesTheOverheadAlone) {
  EXPECT_DOUBLE_EQ(device_s({"constant", 0, 0.05}, 3e9, 64), 0.05);
}

TEST(Device, OfAPeakWiderModelsSustainMore) {
  DeviceConfig device{.name = "v100", .peak_tflops = 100, .efficiency = 0.5, .half_width = 1000};
  EXPECT_DOUBLE_EQ(sustained_flops_per_s(device, 1000), 25e12);
  EXPECT_DOUBLE_EQ(sustained_flops_per_s(device, 4000), 40e12);
  EXPECT_DOUBLE_EQ(device_s(device, 50e12, 1000), 2);
}

TEST(Device, APassOverMemoryTakesItsBytesAtTheMemorysRate) {
  EXPECT_DOUBLE_EQ(memory_s({.name = "t4", .memory_gb_per_s = 300}, 6e11), 2);
  EXPECT_EQ(memory_s({.name = "unknown"}, 6e11), 0);
}

TEST(Device, AMessageTakesTheLatencyAndItsBytesAtTheLinksRate) {
  EXPECT_DOUBLE_EQ(link_s(0.25, 1e6, 500'000), 0.75);
}

}  // namespace
}  // namespace swarmpi::device_test
