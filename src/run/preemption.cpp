#include "run/preemption.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/rng.hpp"
#include "core/text.hpp"
#include "io/files.hpp"

namespace swarmpi {
namespace {

// Thirty years: no run waits for more, and clocks can count it.
constexpr double kFarAwayS = 1e9;

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
    if (event.time_s > kFarAwayS) {
      return Status::bad_input(
          format("faults.trace: %s: %g s is too far away", faults.trace.c_str(), event.time_s));
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
                                              const RunPart& part) {
  const FaultsConfig& faults = config.faults;
  Result<std::vector<TraceEvent>> trace = read_trace(faults, part.ranks);
  if (!trace.ok()) return trace;
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : trace.value()) {
    if (event.peer == self.value) events.push_back(event);
  }
  if (faults.mtbf_s > 0) {
    // Another time after every resume, when the machines are others.
    const auto peer = static_cast<std::uint32_t>(self.value);
    const auto term = static_cast<std::uint64_t>(part.first_term);
    const double after_s =
        -faults.mtbf_s * std::log(uniform(philox(faults.seed, Stream::faults, peer, term)[0]));
    const double at_s = part.run_time_s + std::min(after_s, kFarAwayS);
    events.push_back({at_s, "kill", self.value});
  }
  // Of an earlier part of the run.
  std::erase_if(events, [&](const TraceEvent& e) { return e.time_s < part.run_time_s; });
  if (const double notice_s = config.swarm.notice_s; notice_s > 0) {
    for (std::size_t i = events.size(); i-- > 0;) {
      if (events[i].event != "kill") continue;
      const double at_s = std::max(part.run_time_s, events[i].time_s - notice_s);
      events.push_back({at_s, "notice", self.value});
    }
  }
  // A notice that is due at once comes before its kill.
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::pair(a.time_s, a.event != "notice") < std::pair(b.time_s, b.event != "notice");
  });
  return events;
}

}  // namespace swarmpi
