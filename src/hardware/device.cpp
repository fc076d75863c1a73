#include "hardware/device.hpp"

namespace swarmpi {

double device_s(const DeviceConfig& device, double flops) {
  const double product_s = device.gflops > 0 ? flops / (device.gflops * 1e9) : 0;
  return device.overhead_s + product_s;
}

}  // namespace swarmpi
