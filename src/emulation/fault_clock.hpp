#pragma once
// Preemption by the deck's trace (faults.trace): injects each event of this process's peers at its
// time.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "hardware/preemption_trace.hpp"

namespace swarmpi {

/// Why a peer is to stop that has notice from the deck.
inline constexpr char kNoticeFromDeck[] = "preemption notice from [faults] in the deck";

class FaultClock {
 public:
  /// `events`: in order of time, none before `run_time_s`, the run's time now. `inject_fault` is
  /// called with each at its time, on a thread of its own.
  FaultClock(std::vector<TraceEvent> events, double run_time_s,
             std::function<void(const TraceEvent&)> inject_fault);
  ~FaultClock();
  FaultClock(const FaultClock&) = delete;
  FaultClock& operator=(const FaultClock&) = delete;

 private:
  void run(double run_time_s);

  std::vector<TraceEvent> events_;
  std::function<void(const TraceEvent&)> inject_fault_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace swarmpi
