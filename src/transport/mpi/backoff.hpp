#pragma once
// Sleeps between looks at MPI (exponential backoff): short ones after something happened, longer
// and longer ones while nothing does.

#include "core/clock.hpp"

namespace swarmpi {

class Backoff {
 public:
  explicit Backoff(double longest_s) : longest_s_(longest_s) {}

  /// Something happened and more is likely to follow: the next sleep is the shortest.
  void reset();
  /// Sleeps until a descriptor is readable, or for the next interval, at most `limit_s`. Returns
  /// whether `wake_descriptor` is readable. `bell_descriptor`: of the doorbell; may be -1.
  bool sleep(int wake_descriptor, int bell_descriptor, double limit_s);
  /// Whether requests are in progress: no doorbell announces their completion.
  void set_busy(bool busy) { busy_ = busy; }
  /// Whether messages may come that no doorbell announces. Then it looks more often, so that one is
  /// found within an eighth of the time for which nothing has happened.
  void set_unannounced(bool unannounced) { unannounced_ = unannounced; }
  /// Whether the last sleep was ended by the bell.
  bool rung() const { return rung_; }

 private:
  double next_interval_s();

  double longest_s_;
  WallClock clock_;
  double reset_s_ = 0;     // when something happened last
  double interval_s_ = 0;  // the last sleep; 0 after a reset
  bool busy_ = false;
  bool unannounced_ = false;
  bool precise_ = false;
  bool rung_ = false;
};

}  // namespace swarmpi
