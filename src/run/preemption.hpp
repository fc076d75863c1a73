#pragma once
// What the deck says happens to a peer of this run by the clock.

#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"
#include "faults/trace.hpp"

namespace swarmpi {

/// A run from one start of its peers to the next: where it stands when they start.
struct RunPart {
  std::int64_t ranks = 1;
  double run_time_s = 0;
  std::int64_t first_term = 1;
};

/// Kills, and the notices before them, in order: those of the trace, and one drawn for
/// faults.mtbf_s. Errors: bad_input, where the trace cannot be read, or asks for what this run
/// cannot do.
Result<std::vector<TraceEvent>> preemption_of(const Config& config, PeerId self,
                                              const RunPart& part);

}  // namespace swarmpi
