#pragma once
// What the deck says happens to the peers of this run by the clock.

#include <cstdint>
#include <map>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"
#include "hardware/preemption_trace.hpp"

namespace swarmpi {

/// A run from one start of its peers to the next: where it stands when they start.
struct RunPart {
  std::int64_t ranks = 1;
  double run_time_s = 0;
  std::int64_t first_term = 1;
};

struct Preemption {
  std::vector<TraceEvent> here;           ///< what happens to the peers of this rank, in order
  std::map<std::int64_t, int> placement;  ///< the ranks of all peers, newcomers too, by id
  std::vector<TraceEvent> joins;          ///< of all ranks, in order
};

/// The events of the trace, a kill of each peer drawn for faults.mtbf_s, and the notices before
/// kills. Errors: bad_input, where the trace cannot be read, or asks for what this run cannot do.
Result<Preemption> preemption_of(const Config& config, int rank, const RunPart& part);

}  // namespace swarmpi
