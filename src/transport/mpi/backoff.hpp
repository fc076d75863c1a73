#pragma once
// Sleeps between looks at MPI: shortly after something happened, longer and longer while nothing
// does.

#include "core/clock.hpp"

namespace swarmpi {

class Backoff {
 public:
  explicit Backoff(double longest_s) : longest_s_(longest_s) {}

  /// Something happened: more is likely to follow.
  void reset();
  /// Until a descriptor is readable, or for the present interval, at most `limit_s`. Says whether
  /// `wake_descriptor` is readable. `bell_descriptor` may be -1.
  bool sleep(int wake_descriptor, int bell_descriptor, double limit_s);
  /// Requests are in progress, whose end nobody rings for.
  void set_busy(bool busy) { busy_ = busy; }
  /// Not all that may come is rung for: then more looks are spent, so that it is found within an
  /// eighth of the time for which nothing has happened.
  void set_unheard(bool unheard) { unheard_ = unheard; }
  /// Whether the last sleep was ended by the bell.
  bool rung() const { return rung_; }

 private:
  double next_interval_s();

  double longest_s_;
  WallClock clock_;
  double reset_s_ = 0;     // when something happened last
  double interval_s_ = 0;  // the last one; 0 after a stir
  bool busy_ = false;
  bool unheard_ = false;
  bool precise_ = false;
  bool rung_ = false;
};

}  // namespace swarmpi
