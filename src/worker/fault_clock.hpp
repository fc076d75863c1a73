#pragma once
// Preemption by the deck: what a trace says happens to this peer, at its time.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "faults/trace.hpp"
#include "worker/inbox.hpp"

namespace swarmpi {

/// What is done to this process: `kill` by SIGKILL, at once; `notice` asks the peer to leave.
void strike(const std::string& event, Inbox& inbox);

class FaultClock {
 public:
  /// `events`: of this peer, in order, none before `run_time_s`: the time that it is now.
  FaultClock(std::vector<TraceEvent> events, double run_time_s, Inbox& inbox);
  ~FaultClock();
  FaultClock(const FaultClock&) = delete;
  FaultClock& operator=(const FaultClock&) = delete;

 private:
  void run(double run_time_s);

  std::vector<TraceEvent> events_;
  Inbox& inbox_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread thread_;  // the last: it uses all above
};

}  // namespace swarmpi
