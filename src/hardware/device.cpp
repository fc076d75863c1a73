#include "hardware/device.hpp"

#include <algorithm>

namespace swarmpi {

std::optional<DeviceConfig> device_of(const Config& config, PeerId peer) {
  for (const PeersConfig& row : config.peer_classes) {
    if (std::find(row.peers.begin(), row.peers.end(), peer.value) == row.peers.end()) continue;
    for (const DeviceConfig& device : config.devices) {
      if (device.name == row.device) return device;
    }
  }
  return std::nullopt;
}

double device_s(const DeviceConfig& device, double flops) {
  const double product_s = device.gflops > 0 ? flops / (device.gflops * 1e9) : 0;
  return device.overhead_s + product_s;
}

double link_s(double latency_s, double bytes_per_s, std::int64_t bytes) {
  return latency_s + static_cast<double>(bytes) / bytes_per_s;
}

}  // namespace swarmpi
