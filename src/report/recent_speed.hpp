#pragma once
// How fast steps follow each other at present.

#include <algorithm>
#include <cmath>

namespace swarmpi {

/// An average in which a step counts less the longer ago it was: over some ten seconds, and over
/// some ten steps where these take longer.
class RecentSpeed {
 public:
  /// A step is done. Several at the same moment are as good as evenly spread ones.
  void step_done(double now_s) {
    if (last_s_ >= 0) {
      const double seconds = std::max(0.0, now_s - last_s_);
      const double keep = std::max(std::exp(-seconds / kForgetS), kKeepAtLeast);
      steps_ = steps_ * keep + 1;
      seconds_ = seconds_ * keep + seconds;
    }
    last_s_ = now_s;
  }
  /// 0 where nothing can be said yet.
  double steps_per_s() const { return seconds_ > 0 ? steps_ / seconds_ : 0; }

 private:
  static constexpr double kForgetS = 10;
  static constexpr double kKeepAtLeast = 0.9;

  double last_s_ = -1;
  double steps_ = 0, seconds_ = 0;
};

}  // namespace swarmpi
