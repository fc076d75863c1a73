#pragma once
// How much a learner asks for at a time: gradients and signs of life wait on the same links behind
// what is under way, and a line that is long holds more of it.

#include <algorithm>
#include <cstdint>
#include <limits>

namespace swarmpi {

class FetchWindow {
 public:
  explicit FetchWindow(std::int64_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// A request, as it was when it was sent.
  struct Request {
    double at_s = 0;
    std::int64_t received_bytes = 0;  // by then, of all pieces
  };

  /// Whether so much more may be asked for: over all donors two pieces are under way, and what the
  /// line holds, which is the best rate that was seen times the shortest delay.
  bool has_room(std::int64_t bytes) const {
    return under_way_bytes_ == 0 || under_way_bytes_ + bytes <= 2 * piece_bytes_ + line_bytes();
  }
  Request ask(std::int64_t bytes, double now_s) {
    under_way_bytes_ += bytes;
    return {now_s, received_bytes_};
  }
  /// It is not waited for any more.
  void forget(std::int64_t bytes) { under_way_bytes_ -= bytes; }
  void receive(const Request& request, std::int64_t bytes, double now_s) {
    forget(bytes);
    received_bytes_ += bytes;
    const double delay_s = now_s - request.at_s;
    if (delay_s <= 0) return;
    const auto meanwhile = static_cast<double>(received_bytes_ - request.received_bytes);
    bytes_per_s_ = std::max(bytes_per_s_, meanwhile / delay_s);
    shortest_delay_s_ = std::min(shortest_delay_s_, delay_s);
  }

 private:
  std::int64_t line_bytes() const {
    return bytes_per_s_ > 0 ? static_cast<std::int64_t>(bytes_per_s_ * shortest_delay_s_) : 0;
  }

  std::int64_t piece_bytes_;
  std::int64_t under_way_bytes_ = 0;
  std::int64_t received_bytes_ = 0;
  double bytes_per_s_ = 0;  // the highest that was seen
  double shortest_delay_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace swarmpi
