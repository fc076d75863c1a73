#include "hardware/device.hpp"

#include <algorithm>

namespace swarmpi {

namespace {

bool row_names_peer(const PeersConfig& row, PeerId peer) {
  return std::find(row.peers.begin(), row.peers.end(), peer.value) != row.peers.end();
}

template <class Row>
std::optional<Row> named(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.name == name) return row;
  }
  return std::nullopt;
}

}  // namespace

const PeersConfig* row_of(const Config& config, PeerId peer) {
  const PeersConfig* rest = nullptr;
  for (const PeersConfig& row : config.peer_classes) {
    if (row_names_peer(row, peer)) return &row;
    if (row.peers.empty()) rest = &row;
  }
  return rest;
}

std::optional<DeviceConfig> device_of(const Config& config, PeerId peer) {
  const PeersConfig* row = row_of(config, peer);
  return row == nullptr ? std::nullopt : named(config.devices, row->device);
}

std::optional<LinkConfig> link_of(const Config& config, PeerId peer) {
  const PeersConfig* row = row_of(config, peer);
  return row == nullptr ? std::nullopt : named(config.links, row->link);
}

Kernels kernels_of(const Config& config, PeerId peer) {
  const PeersConfig* row = row_of(config, peer);
  switch (row == nullptr ? PeerKernels::as_all : row->kernels) {
    case PeerKernels::as_all:
      break;
    case PeerKernels::native:
      return Kernels::native;
    case PeerKernels::reference:
      return Kernels::reference;
    case PeerKernels::cuda:
      return Kernels::cuda;
  }
  return config.compute.kernels;
}

double sustained_flops_per_s(const DeviceConfig& device, std::int64_t width) {
  if (device.peak_tflops == 0) return device.gflops * 1e9;
  const auto columns = static_cast<double>(width);
  return device.peak_tflops * 1e12 * device.efficiency * columns / (columns + device.half_width);
}

double device_s(const DeviceConfig& device, double flops, std::int64_t width) {
  const double flops_per_s = sustained_flops_per_s(device, width);
  return device.overhead_s + (flops_per_s > 0 ? flops / flops_per_s : 0);
}

double memory_s(const DeviceConfig& device, double bytes) {
  return device.memory_gb_per_s > 0 ? bytes / (device.memory_gb_per_s * 1e9) : 0;
}

double link_s(double latency_s, double bytes_per_s, std::int64_t bytes) {
  return latency_s + static_cast<double>(bytes) / bytes_per_s;
}

}  // namespace swarmpi
