#include "transport/mpi/send_window.hpp"

#include <algorithm>
#include <utility>

#include "protocol/messages/lanes.hpp"

namespace swarmpi {

std::size_t SendWindow::least_bytes() { return static_cast<std::size_t>(kAhead.least_bytes); }

void SendWindow::sent(std::size_t size_bytes, double now_s) {
  ahead_bytes_ += size_bytes;
  fragments_.push_back({size_bytes, ahead_bytes_, now_s});
}

// The receiver tells when the last of these has come; those before may have waited for that.
void SendWindow::taken(std::size_t size_bytes, double now_s) {
  std::size_t left_bytes = size_bytes;
  Fragment last;
  while (left_bytes > 0 && !fragments_.empty()) {
    last = fragments_.front();
    const std::size_t part_bytes = std::min(left_bytes, last.left_bytes);
    left_bytes -= part_bytes;
    ahead_bytes_ -= part_bytes;
    fragments_.front().left_bytes -= part_bytes;
    if (fragments_.front().left_bytes == 0) fragments_.pop_front();
  }
  const double took_s = now_s - last.at_s;
  if (last.ahead_bytes == 0 || took_s <= 0) return;
  const double in_time_bytes = static_cast<double>(last.ahead_bytes) / took_s * kAhead.most_s;
  most_bytes_ =
      static_cast<std::size_t>(std::clamp(in_time_bytes, kAhead.least_bytes, kAhead.most_bytes));
}

}  // namespace swarmpi
