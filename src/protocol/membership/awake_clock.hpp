#pragma once
// How long this peer itself was awake. A process that was stopped, or that a busy machine has left
// no time, must not take its own absence for the lateness of its job or its disk.

#include <algorithm>
#include <optional>

namespace swarmpi {

class AwakeClock {
 public:
  /// `most_s`: a longer time between two events counts as this. Events come at least as often
  /// while anything is watched.
  explicit AwakeClock(double most_s) : most_s_(most_s) {}

  void set_most(double most_s) { most_s_ = most_s; }
  /// To be called at each event.
  void passed(double now_s) {
    if (last_s_) awake_s_ += std::clamp(now_s - *last_s_, 0.0, most_s_);
    last_s_ = now_s;
  }
  const double& awake_s() const { return awake_s_; }

 private:
  double most_s_;
  std::optional<double> last_s_;
  double awake_s_ = 0;
};

}  // namespace swarmpi
