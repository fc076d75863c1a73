#include "run/preemption.hpp"

#include <algorithm>
#include <cmath>

#include "core/rng.hpp"
#include "core/text.hpp"
#include "io/files.hpp"

namespace swarmpi {
namespace {

Result<std::vector<TraceEvent>> read_trace(const FaultsConfig& faults, std::int64_t ranks) {
  if (faults.trace.empty()) return std::vector<TraceEvent>();
  const Result<std::string> text = read_file(faults.trace);
  if (!text.ok()) return Status::bad_input("faults.trace: " + text.status().message());
  Result<std::vector<TraceEvent>> events = parse_trace(text.value(), faults.trace);
  if (!events.ok()) return Status::bad_input("faults.trace: " + events.status().message());
  for (const TraceEvent& event : events.value()) {
    if (event.event != "kill" && event.event != "notice") {
      return Status::bad_input(
          format("faults.trace: %s: faults.mode = \"%s\" knows kill and "
                 "notice, not %s (at %g s)",
                 faults.trace.c_str(), faults.mode.c_str(), event.event.c_str(), event.time_s));
    }
    if (event.peer >= ranks) {
      return Status::bad_input(format("faults.trace: %s: there is no peer %lld among %lld ranks",
                                      faults.trace.c_str(), static_cast<long long>(event.peer),
                                      static_cast<long long>(ranks)));
    }
  }
  return events;
}

}  // namespace

Result<std::vector<TraceEvent>> preemption_of(const Config& config, PeerId self,
                                              const Departure& departure) {
  const FaultsConfig& faults = config.faults;
  Result<std::vector<TraceEvent>> trace = read_trace(faults, departure.ranks);
  if (!trace.ok()) return trace;
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : trace.value()) {
    if (event.peer == self.value) events.push_back(event);
  }
  if (faults.mtbf_s > 0) {
    // Another time after every resume, when the machines are others.
    const auto peer = static_cast<std::uint32_t>(self.value);
    const auto part = static_cast<std::uint64_t>(departure.first_term);
    const double after_s =
        -faults.mtbf_s * std::log(uniform(philox(faults.seed, Stream::faults, peer, part)[0]));
    events.push_back({departure.run_time_s + after_s, "kill", self.value});
  }
  if (const double notice_s = config.swarm.notice_s; notice_s > 0) {
    for (std::size_t i = events.size(); i-- > 0;) {
      if (events[i].event != "kill") continue;
      events.push_back({std::max(0.0, events[i].time_s - notice_s), "notice", self.value});
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.time_s < b.time_s; });
  return events;
}

}  // namespace swarmpi
