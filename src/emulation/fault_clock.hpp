#pragma once
// Preemption by the deck: what is to happen to the peers of this process, at its time.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "hardware/preemption_trace.hpp"

namespace swarmpi {

class FaultClock {
 public:
  /// `events`: in order, none before `run_time_s`: the time that it is now. `strike` is called for
  /// each, at its time, on a thread of its own.
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
  std::thread thread_;  // the last: it uses all above
};

}  // namespace swarmpi
