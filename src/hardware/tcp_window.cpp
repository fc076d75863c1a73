#include "hardware/tcp_window.hpp"

#include <cmath>

namespace swarmpi {
namespace {

// Beside the round trip. Linux takes 0.2 s at least, and more where round trips differ, as they do
// behind other messages: over lines of 50 Mbit/s its timeouts were 0.2 to 0.34 s.
constexpr Nanoseconds kTimeoutMargin = 300'000'000;

}  // namespace

Nanoseconds TcpWindow::pass(std::int64_t bytes, const Path& path, Nanoseconds now) {
  if (now >= std::max(free_at_, begun_ + path.round_trip)) begin_burst(path, now);
  sent_ += static_cast<double>(bytes);
  const auto round_trip_ns = static_cast<double>(path.round_trip);
  while (sent_ > in_flight() && in_flight() * path.ns_per_byte < round_trip_ns) {
    sent_ -= in_flight();
    begun_ += path.round_trip;
    full_at_ = begun_;
    window_ = std::min(2 * window_, 2 * most_in_flight_);
  }
  free_at_ = begun_ + std::llround(sent_ * path.ns_per_byte);
  return free_at_;
}

// Acknowledgements widen a window of which at least half was in use.
void TcpWindow::begin_burst(const Path& path, Nanoseconds now) {
  if (sent_ > window_ / 2) {
    window_ = std::min(window_ + sent_, 2 * most_in_flight_);
    full_at_ = free_at_;
  }
  const Nanoseconds timeout = path.round_trip + kTimeoutMargin;
  for (; window_ > kFirstBytes && now - full_at_ >= timeout; full_at_ += timeout) {
    window_ = std::max(window_ / 2, kFirstBytes);
  }
  begun_ = now;
  sent_ = 0;
}

}  // namespace swarmpi
