#pragma once
// The file of `faults.trace`, as people and spreadsheets write it.

#include <string>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "hardware/preemption_trace.hpp"

namespace swarmpi {

class FaultTrace {
 public:
  /// A byte order mark at its begin is passed over. Errors: bad_input, with file and line.
  static Result<FaultTrace> read(const std::string& path);

  /// In order of time.
  const std::vector<TraceEvent>& events() const { return events_; }

  /// Whether all of it can happen in one go: nobody dies twice, and only who was stopped, or cut
  /// off, is let go on, or healed. Errors: bad_input, with file and line.
  Status check_order() const;

 private:
  FaultTrace(std::string path, std::string text, std::vector<TraceEvent> events)
      : path_(std::move(path)), text_(std::move(text)), events_(std::move(events)) {}

  int line_of(std::size_t event) const;

  std::string path_, text_;
  std::vector<TraceEvent> events_;
};

}  // namespace swarmpi
