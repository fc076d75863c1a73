#include "hardware/device.hpp"

#include <algorithm>

namespace swarmpi {

namespace {

bool names(const PeersConfig& row, PeerId peer) {
  return std::find(row.peers.begin(), row.peers.end(), peer.value) != row.peers.end();
}

}  // namespace

std::optional<DeviceConfig> device_of(const Config& config, PeerId peer) {
  for (const PeersConfig& row : config.peer_classes) {
    if (!names(row, peer)) continue;
    for (const DeviceConfig& device : config.devices) {
      if (device.name == row.device) return device;
    }
  }
  return std::nullopt;
}

Kernels kernels_of(const Config& config, PeerId peer) {
  for (const PeersConfig& row : config.peer_classes) {
    if (!names(row, peer)) continue;
    switch (row.kernels) {
      case PeerKernels::as_all:
        break;
      case PeerKernels::native:
        return Kernels::native;
      case PeerKernels::reference:
        return Kernels::reference;
      case PeerKernels::cuda:
        return Kernels::cuda;
    }
  }
  return config.compute.kernels;
}

double device_s(const DeviceConfig& device, double flops) {
  const double product_s = device.gflops > 0 ? flops / (device.gflops * 1e9) : 0;
  return device.overhead_s + product_s;
}

double link_s(double latency_s, double bytes_per_s, std::int64_t bytes) {
  return latency_s + static_cast<double>(bytes) / bytes_per_s;
}

}  // namespace swarmpi
