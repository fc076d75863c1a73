#pragma once
// What takes how long on hardware, by formula: for emulation, which makes a job last so long, and
// for virtual time.

#include <cstdint>
#include <optional>

#include "config/config.hpp"
#include "core/ids.hpp"

namespace swarmpi {

/// The device class that [[peers]] gives to a peer, if any.
std::optional<DeviceConfig> device_of(const Config& config, PeerId peer);

/// The kernels that a peer computes with.
Kernels kernels_of(const Config& config, PeerId peer);

/// Seconds for a job of so many floating-point operations. A device without a rate takes its
/// overhead alone.
double device_s(const DeviceConfig& device, double flops);

/// Seconds for a message over a link.
double link_s(double latency_s, double bytes_per_s, std::int64_t bytes);

}  // namespace swarmpi
