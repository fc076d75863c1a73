#include "model/peer_budget.hpp"

#include <algorithm>

#include "hardware/device.hpp"

namespace swarmpi {
namespace {

std::optional<std::int64_t> bound(double gb) {
  return gb > 0 ? std::optional(static_cast<std::int64_t>(gb * 1e9)) : std::nullopt;
}

std::optional<std::int64_t> less(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

}  // namespace

std::optional<std::int64_t> peer_budget_bytes(const Config& config, PeerId peer,
                                              const kernels::Backend& backend,
                                              const Sharers& sharers) {
  const bool hollow = config.compute.kernels == Kernels::none;
  const std::optional<std::int64_t> budget =
      hollow ? bound(config.compute.memory_gb) : budget_bytes(config, backend, sharers);
  if (config.compute.fidelity == Fidelity::real) return budget;
  const std::optional<DeviceConfig> device = device_of(config, peer);
  return device ? less(budget, bound(device->memory_gb)) : budget;
}

}  // namespace swarmpi
