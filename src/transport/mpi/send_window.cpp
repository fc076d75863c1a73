#include "transport/mpi/send_window.hpp"

#include <algorithm>
#include <utility>

#include "protocol/messages/lanes.hpp"

namespace swarmpi {
namespace {

// Of a message that is under way so many fragments may leave, however little the line carries:
// while the receiver has taken some and not acknowledged them yet, others are on their way.
constexpr std::size_t kFragmentsAhead = 4;
static_assert(kFragmentsAhead > kFragmentsAcknowledged);
static_assert(kFragmentsAhead * SendWindow::kSmallestFragmentBytes <= kAhead.least_bytes);

// As many times what was on its way, and has met no queue, may be next.
constexpr std::size_t kWindowGrowth = 2;
// Shorter queues count as none.
constexpr double kShortQueueS = kAhead.most_s / 2;
// After so long others may have begun to use the line.
constexpr double kPauseS = 1;
// A route may have become longer for good. Shorter than this and a reduction over a slow line would
// take its own queue for distance.
constexpr double kDistanceHoldsS = 900;

}  // namespace

std::size_t SendWindow::least_bytes() { return static_cast<std::size_t>(kAhead.least_bytes); }

bool SendWindow::may_be_idle() const {
  return ahead_bytes_ <= std::max(least_bytes(), kFragmentsAcknowledged * fragment_bytes_);
}

std::size_t SendWindow::fragment_bytes(double now_s) {
  if (may_be_idle()) {
    rest_bytes_ = ahead_bytes_;
    if (now_s - needed_s_ > kPauseS + distance_s_) {
      most_bytes_ = least_bytes();
      idle_bytes_ = ahead_bytes_;
    }
  }
  return std::clamp(most_bytes_ / kFragmentsAhead, kSmallestFragmentBytes, largest_bytes_);
}

// The receiver leaves less than two fragments without an answer, and with one more they are below
// four: for who waits here an acknowledgement is on its way.
bool SendWindow::admits(std::size_t size_bytes) const {
  const std::size_t most_bytes = std::max(most_bytes_, kFragmentsAhead * fragment_bytes_);
  return ahead_bytes_ + size_bytes <= most_bytes;
}

void SendWindow::sent(std::size_t size_bytes, double now_s) {
  ahead_bytes_ += size_bytes;
  if (ahead_bytes_ - rest_bytes_ > least_bytes()) needed_s_ = now_s;
  fragments_.push_back({size_bytes, ahead_bytes_ - idle_bytes_, now_s});
}

// The receiver tells when the last of these has come; those before may have waited for that.
void SendWindow::taken(std::size_t size_bytes, double now_s) {
  idle_bytes_ -= std::min(idle_bytes_, size_bytes);
  rest_bytes_ -= std::min(rest_bytes_, size_bytes);
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
  note_distance(took_s, now_s);
  most_bytes_ = std::max(most_bytes_, kWindowGrowth * last.ahead_bytes);
  if (took_s - distance_s_ > kShortQueueS) {
    const double bytes_per_s = static_cast<double>(last.ahead_bytes) / took_s;
    const double in_time_bytes = bytes_per_s * (distance_s_ + kAhead.most_s);
    most_bytes_ = std::min(most_bytes_, static_cast<std::size_t>(in_time_bytes));
  }
  const auto most_bytes = static_cast<std::size_t>(kAhead.most_bytes);
  most_bytes_ = std::clamp(most_bytes_, least_bytes(), most_bytes);
}

void SendWindow::note_distance(double took_s, double now_s) {
  if (now_s - renewed_s_ > kDistanceHoldsS) {
    distance_s_ = std::exchange(recent_least_s_, kNever);
    renewed_s_ = now_s;
  }
  recent_least_s_ = std::min(recent_least_s_, took_s);
  distance_s_ = std::min(distance_s_, took_s);
}

}  // namespace swarmpi
