#include "transport/mpi/send_window.hpp"

#include <algorithm>

#include "protocol/messages/lanes.hpp"

namespace swarmpi {
namespace {

// Of a message that is under way so many fragments may leave, however little the line carries:
// while the receiver has taken some and not acknowledged them yet, others are on their way.
constexpr std::size_t kFragmentsAhead = 4;
static_assert(kFragmentsAhead > kFragmentsAcknowledged);
static_assert(kFragmentsAhead * SendWindow::kSmallFragmentBytes <= kAhead.least_bytes);

// As many times what was on its way, and has met no queue, may be next.
constexpr double kGrowth = 2;

}  // namespace

std::size_t SendWindow::least_bytes() { return static_cast<std::size_t>(kAhead.least_bytes); }

std::size_t SendWindow::fragment_bytes() const {
  return most_bytes_ < kFragmentsAhead * large_bytes_ ? kSmallFragmentBytes : large_bytes_;
}

// Else it might wait for ever: what is on its way as soon as this is exceeded is more than the
// receiver takes without acknowledging it.
bool SendWindow::admits(std::size_t size_bytes) const {
  const std::size_t most_bytes = std::max(most_bytes_, kFragmentsAhead * fragment_bytes_);
  return ahead_bytes_ + size_bytes <= most_bytes;
}

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
  if (took_s <= 0) return;
  least_s_ = std::min(least_s_, took_s);
  // Fewer have waited for others' and not for their own.
  if (last.ahead_bytes < least_bytes() / 2) return;
  const auto ahead_bytes = static_cast<double>(last.ahead_bytes);
  const auto carried_bytes = [&](double in_s) { return ahead_bytes * kAhead.most_s / in_s; };
  const double queued_s = took_s - least_s_;
  const double more_bytes = std::max(kGrowth * ahead_bytes, carried_bytes(took_s));
  double bytes = std::max(static_cast<double>(most_bytes_), more_bytes);
  if (queued_s > 0) bytes = std::min(bytes, carried_bytes(queued_s));
  most_bytes_ = static_cast<std::size_t>(std::clamp(bytes, kAhead.least_bytes, kAhead.most_bytes));
}

}  // namespace swarmpi
