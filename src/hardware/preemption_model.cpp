#include "hardware/preemption_model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <queue>

#include "core/random.hpp"

namespace swarmpi {
namespace {

constexpr double kDayS = 24 * 3600;
// The rate is up to this share above its mean by day, and as much below by night.
constexpr double kDayShare = 0.8;
constexpr double kBusiestHour = 14;
// In a burst each peer of one zone fails with this probability, within this time.
constexpr std::int64_t kZones = 3;
constexpr double kBurstShare = 0.5;
constexpr double kBurstS = 30;

class FailureTimes {
 public:
  explicit FailureTimes(std::uint64_t seed) : seed_(seed) {}
  /// In (0, 1].
  double uniform() { return swarmpi::uniform(philox(seed_, Stream::faults, 1, count_++)[0]); }
  double exponential(double mean) { return -mean * std::log(uniform()); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

// Thinning (Lewis and Shedler, 1979): of the failures that a process of the highest rate makes, the
// share that is kept at this time.
double kept_share(TraceModel::Kind kind, double time_s) {
  if (kind != TraceModel::Kind::diurnal) return 1;
  const double phase = 2 * std::numbers::pi * (time_s / kDayS - kBusiestHour / 24);
  return (1 + kDayShare * std::cos(phase)) / (1 + kDayShare);
}

// When, after `time_s`, the next of `peers` fails.
double next_failure(const TraceModel& model, double time_s, double peers, FailureTimes& stream) {
  const double highest =
      peers / model.mtbf_s * (model.kind == TraceModel::Kind::diurnal ? 1 + kDayShare : 1);
  do {
    time_s += stream.exponential(1 / highest);
  } while (stream.uniform() > kept_share(model.kind, time_s));
  return time_s;
}

class TraceMaker {
 public:
  explicit TraceMaker(const TraceModel& model) : model_(model), stream_(model.seed) {
    for (std::int64_t peer = 0; peer < model.peers; ++peer) live_.push_back(peer);
  }

  std::vector<TraceEvent> make() {
    const double end_s = 3600 * model_.hours;
    double now_s = 0;
    while (true) {
      const double failure_s = when_next(now_s);
      const double return_s = returns_.empty() ? INFINITY : returns_.top();
      now_s = std::min(failure_s, return_s);
      if (now_s > end_s || now_s == INFINITY) break;
      if (return_s <= failure_s) {
        returns_.pop();
        add(now_s, FaultEvent::join, newest_ + 1);
        live_.push_back(++newest_);
      } else if (model_.kind == TraceModel::Kind::burst) {
        burst(now_s);
      } else {
        kill(now_s, pick(live_.size()));
      }
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const TraceEvent& a, const TraceEvent& b) { return a.time_s < b.time_s; });
    std::erase_if(events_, [&](const TraceEvent& event) { return event.time_s > end_s; });
    return std::move(events_);
  }

 private:
  double when_next(double now_s) {
    if (live_.empty()) return INFINITY;
    if (model_.kind != TraceModel::Kind::burst) {
      return next_failure(model_, now_s, static_cast<double>(live_.size()), stream_);
    }
    return next_failure(model_, now_s, kZones / kBurstShare, stream_);
  }
  std::size_t pick(std::size_t count) {
    const double drawn = stream_.uniform() * static_cast<double>(count);
    return std::min(count - 1, static_cast<std::size_t>(drawn));
  }
  void add(double time_s, FaultEvent event, std::int64_t peer) {
    events_.push_back({std::round(1e3 * time_s) / 1e3, event, peer});
  }
  void kill(double time_s, std::size_t index) {
    add(time_s, FaultEvent::kill, live_[index]);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    if (model_.return_s > 0) returns_.push(time_s + stream_.exponential(model_.return_s));
  }
  void burst(double time_s) {
    const auto zone = static_cast<std::int64_t>(pick(kZones));
    for (std::size_t index = live_.size(); index-- > 0;) {
      const double after_s = kBurstS * stream_.uniform();
      const bool hit = stream_.uniform() <= kBurstShare;
      if (hit && live_[index] % kZones == zone) kill(time_s + after_s, index);
    }
  }

  const TraceModel& model_;
  FailureTimes stream_;
  std::vector<std::int64_t> live_;
  std::int64_t newest_ = model_.peers - 1;
  std::priority_queue<double, std::vector<double>, std::greater<>> returns_;
  std::vector<TraceEvent> events_;
};

}  // namespace

std::vector<TraceEvent> make_trace(const TraceModel& model) { return TraceMaker(model).make(); }

}  // namespace swarmpi
