#pragma once
// The time of a job on a device class of the deck, by formula: emulation and simulation share it.

#include "config/config.hpp"

namespace swarmpi {

/// Seconds for a job of so many floating-point operations. A device without a rate takes its
/// overhead alone.
double device_s(const DeviceConfig& device, double flops);

}  // namespace swarmpi
