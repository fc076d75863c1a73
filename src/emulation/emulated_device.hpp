#pragma once
// `compute.fidelity = "emulated"`: kernels run, and then their thread sleeps until the job has
// taken what it would take on the peer's device class.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "model/job_costs.hpp"
#include "protocol/messages/compute_port.hpp"
#include "runtime/stage_compute.hpp"

namespace swarmpi {

/// A decorator: the jobs of `below` take what they would take on the device.
class EmulatedDevice final : public JobRunner {
 public:
  /// `specs`: of all stages. REQUIRES: `below` outlives this.
  EmulatedDevice(JobRunner& below, const Config& config, const std::vector<StageSpec>& specs,
                 DeviceConfig device);

  /// A job takes what it takes on the device, or more where this machine is slower; what takes no
  /// time of the device takes what its kernels do.
  Result<JobFinished> run(const Job& job) override;
  /// Ends all waits, now and later, for the peer has ended. Any thread may call.
  void abandon();

  /// How well this machine kept the modelled times. Any thread may call.
  struct Fidelity {
    std::int64_t jobs = 0;
    std::int64_t late_jobs = 0;  ///< whose kernels took longer than the device would
    double modelled_s = 0;       ///< of all jobs
    double late_s = 0;           ///< what late jobs took beyond that
  };
  Fidelity fidelity() const;

 private:
  /// Sleeps until the job, whose kernels have finished, has taken what it takes on the device.
  /// Returns what that was: as long as the kernels took, or more.
  double keep_pace(const Job& job, const JobFinished& finished);

  JobRunner& below_;
  JobCosts costs_;
  DeviceConfig device_;
  mutable std::mutex mutex_;
  std::condition_variable abandoned_changed_;
  bool abandoned_ = false;  // guarded by mutex_
  Fidelity fidelity_;       // guarded by mutex_
};

/// Whether jobs were late by no more than a hundredth of the modelled time of all.
bool is_faithful(const EmulatedDevice::Fidelity& fidelity);
/// For people: how many jobs were late, by how much, and what to do where that was too much.
std::string text_of(const EmulatedDevice::Fidelity& fidelity);

}  // namespace swarmpi
