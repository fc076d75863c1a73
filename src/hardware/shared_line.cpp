#include "hardware/shared_line.hpp"

#include <algorithm>
#include <numeric>

namespace swarmpi {

Nanoseconds SharedLine::pass(Flow flow, std::int64_t bytes, const Passage& passage,
                             const AheadBound& ahead) {
  if (ns_per_byte_ == 0) return passage.last;
  advance(passage.first);
  const auto own = std::find_if(backlogs_.begin(), backlogs_.end(),
                                [flow](const Backlog& backlog) { return backlog.flow == flow; });
  double end = served_;
  if (own != backlogs_.end()) {
    end = own->end;
    backlogs_.erase(own);
  }
  const auto size = static_cast<double>(bytes);
  const auto flows = static_cast<double>(backlogs_.size() + 1);
  const double in_time_bytes = ahead.most_s * 1e9 / (flows * ns_per_byte_);
  const double most_ahead_bytes = std::clamp(in_time_bytes, ahead.least_bytes, ahead.most_bytes);
  const double own_bytes = std::min(end - served_, most_ahead_bytes) + size;
  // Each other flow gets as many meanwhile, if it has them.
  const auto longer = behind(served_ + own_bytes);
  const auto all_of_it = [this](double sum, const Backlog& other) {
    return sum + (other.end - served_);
  };
  const double shorter_bytes = std::accumulate(backlogs_.cbegin(), longer, 0.0, all_of_it);
  const double all_bytes =
      shorter_bytes + static_cast<double>(backlogs_.cend() - longer + 1) * own_bytes;

  backlogs_.insert(behind(end + size), {flow, end + size});
  const Nanoseconds taken = rounded_ns(all_bytes * ns_per_byte_);
  return std::max(passage.last, passage.first + taken);
}

std::vector<SharedLine::Backlog>::const_iterator SharedLine::behind(double end) const {
  return std::upper_bound(backlogs_.begin(), backlogs_.end(), end,
                          [](double one, const Backlog& other) { return one < other.end; });
}

Nanoseconds SharedLine::queue(Flow flow, double most_bytes, Nanoseconds now) const {
  if (backlogs_.empty()) return 0;
  SharedLine then = *this;
  then.advance(now);
  double bytes = 0;
  for (const Backlog& other : then.backlogs_) {
    if (other.flow != flow) bytes += std::min(other.end - then.served_, most_bytes);
  }
  return rounded_ns(bytes * ns_per_byte_);
}

void SharedLine::advance(Nanoseconds to) {
  if (to <= now_) return;
  auto left_ns = static_cast<double>(to - now_);
  now_ = to;
  auto first = backlogs_.begin();
  for (; first != backlogs_.end(); ++first) {
    const auto flows = static_cast<double>(backlogs_.end() - first);
    const double needed_ns = (first->end - served_) * flows * ns_per_byte_;
    if (needed_ns > left_ns) {
      served_ += left_ns / (flows * ns_per_byte_);
      break;
    }
    left_ns -= needed_ns;
    served_ = first->end;
  }
  backlogs_.erase(backlogs_.begin(), first);
  if (backlogs_.empty()) served_ = 0;
}

}  // namespace swarmpi
