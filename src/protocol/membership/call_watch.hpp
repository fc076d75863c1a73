#pragma once
// Whether a lane of storage comes on: its calls of the file system return, or it computes. Times
// are of the peer's AwakeClock.

#include <cstdint>
#include <string>

#include "protocol/membership/cpu_use.hpp"
#include "protocol/messages/progress_port.hpp"

namespace swarmpi {

class CallWatch {
 public:
  /// Something was asked of this lane.
  void asked(double awake_s) {
    if (!busy()) since_s_ = awake_s;
    ++asked_;
  }
  /// Whether something that was asked is not done yet, as far as is known: what a probe says was
  /// true before whatever was asked since.
  bool busy() const { return asked_ > last_.done; }
  void probed(const LaneProgress& progress, double awake_s) {
    const bool returned = progress.calls != last_.calls || progress.running != last_.running;
    if (returned || computes(progress.cpu_s - cpu_s_, awake_s - since_s_)) {
      since_s_ = awake_s;
      cpu_s_ = progress.cpu_s;
    }
    last_ = progress;
  }
  /// How long the call that runs has not returned, nor computed; 0 where none is known to run.
  double still_s(double awake_s) const {
    return busy() && !last_.running.empty() ? awake_s - since_s_ : 0;
  }
  /// What the lane does, for people.
  const std::string& running() const { return last_.running; }

 private:
  std::int64_t asked_ = 0;
  double since_s_ = 0;
  double cpu_s_ = 0;  // that had been used then
  LaneProgress last_;
};

}  // namespace swarmpi
