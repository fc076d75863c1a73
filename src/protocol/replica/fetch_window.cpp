#include "protocol/replica/fetch_window.hpp"

#include <algorithm>

namespace swarmpi {

bool FetchWindow::has_room(std::int64_t bytes) const {
  if (under_way_bytes_ + waiting_bytes_ == 0) return true;
  const std::int64_t asked_bytes = under_way_bytes_ + bytes;
  if (asked_bytes + waiting_bytes_ > kMostPieces * piece_bytes_) return false;
  return under_way_bytes_ == 0 || asked_bytes <= 2 * piece_bytes_ + line_bytes();
}

void FetchWindow::receive(const Request& request, std::int64_t bytes, double now_s) {
  forget(bytes);
  waiting_bytes_ += bytes;
  received_bytes_ += bytes;
  const double delay_s = now_s - request.at_s;
  if (delay_s <= 0) return;
  const auto meanwhile = static_cast<double>(received_bytes_ - request.received_bytes);
  bytes_per_s_ = std::max(bytes_per_s_, meanwhile / delay_s);
  shortest_delay_s_ = std::min(shortest_delay_s_, delay_s);
}

std::int64_t FetchWindow::line_bytes() const {
  return bytes_per_s_ > 0 ? static_cast<std::int64_t>(bytes_per_s_ * shortest_delay_s_) : 0;
}

}  // namespace swarmpi
