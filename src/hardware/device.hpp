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

/// The row of [[peers]] that is about a peer: the one that names it, else the one that names none;
/// null where there is neither.
const PeersConfig* row_of(const Config& config, PeerId peer);

/// The link class that [[peers]] gives to a peer, if any.
std::optional<LinkConfig> link_of(const Config& config, PeerId peer);

/// FLOP/s that a device sustains in products of a model of this width; 0: no bound.
double sustained_flops_per_s(const DeviceConfig& device, std::int64_t width);

/// Seconds for a job of so many floating-point operations. A device without a rate takes its
/// overhead alone.
double device_s(const DeviceConfig& device, double flops, std::int64_t width);

/// Seconds for a pass over so many bytes of the device's memory, read or written.
double memory_s(const DeviceConfig& device, double bytes);

// What passes over memory, in bytes an element. An update reads weight, gradient and two moments,
// and writes all but the gradient, and the copy of the weight that products take.
inline constexpr double kUpdateBytes = 32;
/// Of a sum of 64 bits, as it is rounded to a gradient or packed.
inline constexpr double kSumBytes = 12;
/// Of another's sums that are added to it.
inline constexpr double kAddendBytes = 16;
/// Of a value that a codec makes smaller or larger.
inline constexpr double kCodecBytes = 5;
/// Of a value that is copied.
inline constexpr double kCopyBytes = 8;

/// Seconds for a message over a link.
double link_s(double latency_s, double bytes_per_s, std::int64_t bytes);

}  // namespace swarmpi
