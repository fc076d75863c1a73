#include "worker/fault_clock.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {

void strike(const std::string& event, Inbox& inbox) {
  if (event == "notice") return inbox.post(StopRequested{"told to go by the deck"});
  SWARMPI_CHECK(event == "kill", "a fault that a process can do to itself");
  kill(getpid(), SIGKILL);
}

FaultClock::FaultClock(std::vector<TraceEvent> events, double run_time_s, Inbox& inbox)
    : events_(std::move(events)), inbox_(inbox) {
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
    strike(event.event, inbox_);
  }
}

}  // namespace swarmpi
