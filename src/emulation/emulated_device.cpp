#include "emulation/emulated_device.hpp"

#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "protocol/messages/compute_port.hpp"

namespace swarmpi {

EmulatedDevice::EmulatedDevice(JobRunner& below, const Config& config,
                               const std::vector<StageSpec>& specs, DeviceConfig device)
    : below_(below), costs_(config, specs), device_(std::move(device)) {}

Result<JobFinished> EmulatedDevice::run(const Job& job) {
  Result<JobFinished> finished = below_.run(job);
  if (!finished.ok()) return finished;
  JobFinished held = std::move(finished).value();
  held.duration_s = keep_pace(job, held);
  return held;
}

double EmulatedDevice::keep_pace(const Job& job, const JobFinished& finished) {
  const double kernels_s = finished.duration_s;
  const auto now = std::chrono::steady_clock::now();
  const double modelled_s = costs_.seconds(device_, job, finished.result);
  if (modelled_s == 0) return kernels_s;
  std::unique_lock lock(mutex_);
  ++fidelity_.jobs;
  fidelity_.modelled_s += modelled_s;
  if (kernels_s > modelled_s) {
    ++fidelity_.late_jobs;
    fidelity_.late_s += kernels_s - modelled_s;
    return kernels_s;
  }
  const std::chrono::duration<double> left(modelled_s - kernels_s);
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

bool is_faithful(const EmulatedDevice::Fidelity& fidelity) {
  constexpr double kTolerated = 0.01;
  return fidelity.late_s <= kTolerated * fidelity.modelled_s;
}

std::string text_of(const EmulatedDevice::Fidelity& fidelity) {
  const bool faithful = is_faithful(fidelity);
  return fmt::format(
      "the emulation was {}faithful: {} of {} jobs took longer here than on their device, {:.3g} s "
      "beyond the {:.3g} s that all should take{}",
      faithful ? "" : "not ", fidelity.late_jobs, fidelity.jobs, fidelity.late_s,
      fidelity.modelled_s, faithful ? "" : ": emulate slower devices, or a smaller model");
}

}  // namespace swarmpi
