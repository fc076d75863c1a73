#include "emulation/fault_clock.hpp"

#include <chrono>
#include <utility>

namespace swarmpi {

FaultClock::FaultClock(std::vector<TraceEvent> events, double run_time_s,
                       std::function<void(const TraceEvent&)> inject_fault)
    : events_(std::move(events)), inject_fault_(std::move(inject_fault)) {
  if (!events_.empty()) thread_ = std::thread([this, run_time_s] { run(run_time_s); });
}

FaultClock::~FaultClock() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FaultClock::run(double run_time_s) {
  const auto started = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (const TraceEvent& event : events_) {
    const std::chrono::duration<double> after(event.time_s - run_time_s);
    const auto at =
        started + std::chrono::duration_cast<std::chrono::steady_clock::duration>(after);
    if (ended_.wait_until(lock, at, [this] { return ending_; })) return;
    inject_fault_(event);
  }
}

}  // namespace swarmpi
