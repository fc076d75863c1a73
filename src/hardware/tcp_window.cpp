#include "hardware/tcp_window.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

// Beside the round trip, as the path is now. Linux takes 0.2 s beside the mean round trip, which is
// longer: over lines of 100 Mbit/s and 50 ms there and back its timeouts were 0.276 s.
constexpr Nanoseconds kTimeoutMargin = 225'000'000;

}  // namespace

Nanoseconds TcpWindow::pass(std::int64_t bytes, const Path& path, Nanoseconds now) {
  if (may_begin(path, now)) begin_burst(path, now);
  sent_ += static_cast<double>(bytes);
  const auto round_trip_ns = static_cast<double>(path.round_trip);
  while (sent_ > in_flight() && in_flight() * path.ns_per_byte < round_trip_ns) {
    sent_ -= in_flight();
    begun_ += path.round_trip;
    window_ = std::min(2 * window_, 2 * most_in_flight_);
  }
  free_at_ = begun_ + rounded_ns(sent_ * path.ns_per_byte);
  last_sent_ = std::max({last_sent_, now, free_at_});
  return free_at_;
}

void TcpWindow::pass_beside(const Passage& passage, const Path& path) {
  if (may_begin(path, passage.first)) settle(path, passage.first);
  last_sent_ = std::max(last_sent_, passage.last);
}

void TcpWindow::begin_burst(const Path& path, Nanoseconds now) {
  settle(path, now);
  begun_ = now;
}

// Acknowledgements widen a window of which at least half was in use.
void TcpWindow::settle(const Path& path, Nanoseconds now) {
  if (sent_ > window_ / 2) window_ = std::min(window_ + sent_, 2 * most_in_flight_);
  const Nanoseconds timeout = path.round_trip + kTimeoutMargin;
  for (; window_ > kFirstBytes && now - last_sent_ >= timeout; last_sent_ += timeout) {
    window_ = std::max(window_ / 2, kFirstBytes);
  }
  sent_ = 0;
}

}  // namespace swarmpi
