#include "emulation/emulated_device.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/text.hpp"
#include "hardware/device.hpp"
#include "model/cost.hpp"

namespace swarmpi {

std::optional<DeviceConfig> device_of(const Config& config, PeerId peer) {
  if (config.compute.fidelity != Fidelity::emulated) return std::nullopt;
  for (const PeersConfig& row : config.peer_classes) {
    if (std::find(row.peers.begin(), row.peers.end(), peer.value) == row.peers.end()) continue;
    for (const DeviceConfig& device : config.devices) {
      if (device.name == row.device) return device;
    }
  }
  return std::nullopt;
}

EmulatedDevice::EmulatedDevice(const Config& config, const std::vector<StageSpec>& specs,
                               DeviceConfig device)
    : config_(config), specs_(specs), device_(std::move(device)) {}

double EmulatedDevice::job_s(const Job& job) const {
  const StageId* stage = nullptr;
  if (const auto* forward = std::get_if<ForwardJob>(&job)) stage = &forward->work.stage;
  if (const auto* backward = std::get_if<BackwardJob>(&job)) stage = &backward->work.stage;
  if (stage == nullptr) return 0;
  return device_s(device_,
                  job_flops(config_, specs_.at(static_cast<std::size_t>(stage->value)), job));
}

double EmulatedDevice::keep_pace(double modelled_s, double real_s) {
  const auto now = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  ++fidelity_.jobs;
  fidelity_.modelled_s += modelled_s;
  if (real_s > modelled_s) {
    ++fidelity_.late_jobs;
    fidelity_.late_s += real_s - modelled_s;
    return real_s;
  }
  const std::chrono::duration<double> left(modelled_s - real_s);
  abandoned_changed_.wait_until(lock,
                                now + std::chrono::duration_cast<std::chrono::nanoseconds>(left),
                                [this] { return abandoned_; });
  return modelled_s;
}

void EmulatedDevice::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  abandoned_changed_.notify_all();
}

EmulatedDevice::Fidelity EmulatedDevice::fidelity() const {
  const std::lock_guard lock(mutex_);
  return fidelity_;
}

std::string unfaithful(const EmulatedDevice::Fidelity& fidelity) {
  constexpr double kTolerated = 0.01;
  if (fidelity.late_s <= kTolerated * fidelity.modelled_s) return "";
  return format(
      "the emulation was not faithful: %lld of %lld jobs took longer here than on their device, "
      "%.3g s beyond the %.3g s that all should take: emulate slower devices, or a smaller model",
      static_cast<long long>(fidelity.late_jobs), static_cast<long long>(fidelity.jobs),
      fidelity.late_s, fidelity.modelled_s);
}

}  // namespace swarmpi
