#pragma once
// What a TCP connection adds to the latency and the rate of its path: in a round trip it sends no
// more than its window. That begins with ten packets, doubles in each round trip in which it was
// full (slow start), and is halved again for each timeout in which nothing was sent (RFC 2861;
// Linux: tcp_slow_start_after_idle). Nothing is lost here, so that it never halves for that.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/virtual_time.hpp"
#include "hardware/shared_line.hpp"

namespace swarmpi {

class TcpWindow {
 public:
  struct Path {
    Nanoseconds round_trip = 0;
    double ns_per_byte = 0;  ///< of its slowest line
  };

  /// `most_in_flight`: bytes that whoever sends lets be under way, whatever the window.
  explicit TcpWindow(double most_in_flight = 1e6) : most_in_flight_(most_in_flight) {}

  /// When the last byte of a message has left at the earliest that is handed over now, behind all
  /// that was before it. REQUIRES: `now` does not go back.
  Nanoseconds pass(std::int64_t bytes, const Path& path, Nanoseconds now);
  /// Something small leaves in this time, which may begin a little later than now, that waits for
  /// no window, like acknowledgements: the connection does not rest.
  void pass_beside(const Passage& passage, const Path& path);

 private:
  /// Whether all that was sent before is acknowledged by now.
  bool may_begin(const Path& path, Nanoseconds now) const {
    return now >= std::max(free_at_, begun_ + path.round_trip);
  }
  void begin_burst(const Path& path, Nanoseconds now);
  /// What the last burst and the time since then have made of the window. REQUIRES: may_begin().
  void settle(const Path& path, Nanoseconds now);
  double in_flight() const { return std::min(window_, most_in_flight_); }

  double most_in_flight_;
  double window_ = kFirstBytes;
  double sent_ = 0;  // in the round trip, or with an open window the burst, that began
  Nanoseconds begun_ = std::numeric_limits<Nanoseconds>::min() / 2;  // then
  Nanoseconds free_at_ = 0;
  Nanoseconds last_sent_ = 0;

  static constexpr double kFirstBytes = 10 * 1448;
};

}  // namespace swarmpi
