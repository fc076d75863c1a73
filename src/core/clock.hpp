#pragma once
// Seam 1: time. Only the run's own clock is read; in virtual time the simulation moves it.

namespace swarmpi {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since the start of this process's part of the run, or since another moment that stays
  /// the same; never goes back.
  virtual double now_s() const = 0;
};

class WallClock final : public Clock {
 public:
  WallClock();
  double now_s() const override;

 private:
  double start_s_;
};

/// Seconds since the host was started: the same in all its processes.
class HostClock final : public Clock {
 public:
  double now_s() const override;
};

/// Seconds since this process began, as far as it can tell itself.
double process_age_s();

}  // namespace swarmpi
