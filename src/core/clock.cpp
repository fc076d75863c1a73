#include "core/clock.hpp"

#include <chrono>

namespace swarmpi {
namespace {

double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const double kProcessBeganS = monotonic_s();

}  // namespace

WallClock::WallClock() : start_s_(monotonic_s()) {}

double WallClock::now_s() const { return monotonic_s() - start_s_; }

double HostClock::now_s() const { return monotonic_s(); }

double process_age_s() { return monotonic_s() - kProcessBeganS; }

}  // namespace swarmpi
