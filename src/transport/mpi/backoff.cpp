#include "transport/mpi/backoff.hpp"

#include <poll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

namespace swarmpi {
namespace {

constexpr double kShortestS = 50e-6;
constexpr double kLongestBusyS = 200e-6;
// While requests are in progress a look may find something at any time; else a bell announces what
// comes, and only what has rung before it has come is left to be found.
constexpr double kBusyGrowth = 2;
constexpr double kIdleGrowth = 8;

}  // namespace

void Backoff::reset() {
  reset_s_ = clock_.now_s();
  interval_s_ = 0;
}

double Backoff::next_interval_s() {
  const double longest_s = busy_ ? std::min(kLongestBusyS, longest_s_) : longest_s_;
  const double growth = busy_ ? kBusyGrowth : kIdleGrowth;
  interval_s_ = unannounced_ ? (clock_.now_s() - reset_s_) / 8 : interval_s_ * growth;
  interval_s_ = std::clamp(interval_s_, std::min(kShortestS, longest_s), longest_s);
  return interval_s_;
}

bool Backoff::sleep(int wake_descriptor, int bell_descriptor, double limit_s) {
  // The default timer slack lets a thread sleep 50 us longer than asked.
  if (!precise_) prctl(PR_SET_TIMERSLACK, 1000UL);
  precise_ = true;
  const double sleep_s = std::min(next_interval_s(), std::max(limit_s, 0.0));
  std::array<pollfd, 2> waited{{{wake_descriptor, POLLIN, 0}, {bell_descriptor, POLLIN, 0}}};
  const timespec time{static_cast<time_t>(sleep_s), std::lround(std::fmod(sleep_s, 1) * 1e9)};
  const int ready = ppoll(waited.data(), waited.size(), &time, nullptr);
  rung_ = ready > 0 && (waited[1].revents & POLLIN) != 0;
  return ready > 0 && waited[0].revents != 0;
}

}  // namespace swarmpi
