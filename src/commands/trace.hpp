#pragma once
// `swarmpi trace`: makes up when machines are preempted.

#include <ostream>
#include <string>

#include "core/status.hpp"
#include "hardware/preemption_model.hpp"

namespace swarmpi {

struct TraceOptions {
  std::string out;
  std::string model = "poisson";
  TraceModel numbers;
};

/// Says in one line what was written. Errors: bad_input, stopped.
Status run_trace(const TraceOptions& options, std::ostream& out);

}  // namespace swarmpi
