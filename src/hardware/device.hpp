#pragma once
// What takes how long on the hardware that a deck describes, by formula: emulation, which makes it
// last so long, and virtual time both ask here.

#include <cstdint>
#include <optional>

#include "config/config.hpp"
#include "core/ids.hpp"

namespace swarmpi {

/// The device class that [[peers]] gives to a peer, if any.
std::optional<DeviceConfig> device_of(const Config& config, PeerId peer);

/// Seconds for a job of so many floating-point operations. A device without a rate takes its
/// overhead alone.
double device_s(const DeviceConfig& device, double flops);

/// Seconds for a message over a link.
double link_s(double latency_s, double bytes_per_s, std::int64_t bytes);

}  // namespace swarmpi
