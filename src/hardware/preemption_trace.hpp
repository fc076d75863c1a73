#pragma once
// Which fault happens to which peer at what time: a CSV file `time_s,event,peer`, of a real
// cluster's preemptions or made by preemption_model.hpp. Real, emulated and simulated runs replay
// the same one.

#include <cstdint>
#include <string>
#include <vector>

#include "config/choices.hpp"
#include "core/status.hpp"

namespace swarmpi {

struct TraceEvent {
  double time_s = 0;  ///< since the run began; goes on over resumes
  FaultEvent event = FaultEvent::kill;
  std::int64_t peer = 0;

  bool operator==(const TraceEvent&) const = default;
};

/// The events in order of time. A first line `time_s,event,peer`, empty lines and those that begin
/// with # are skipped. `name` is for messages. Errors: bad_input, with the line.
Result<std::vector<TraceEvent>> parse_trace(const std::string& text, const std::string& name);
std::string trace_text(const std::vector<TraceEvent>& events);

}  // namespace swarmpi
