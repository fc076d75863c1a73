#pragma once
// The events of [faults] that are due by the clock: kills, notices, joins, stops and cuts of peers.

#include <cstdint>
#include <map>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"
#include "hardware/preemption_trace.hpp"

namespace swarmpi {

/// Where a run stands when its peers start, at first or after a resume.
struct RunPart {
  std::int64_t ranks = 1;
  double run_time_s = 0;
  std::int64_t first_term = 1;
};

struct Preemption {
  std::vector<TraceEvent> local_events;   ///< of the peers of this rank, in order of time
  std::map<std::int64_t, int> placement;  ///< rank of each peer, newcomers too, by id
  std::vector<TraceEvent> joins;          ///< of all ranks, in order of time
  std::vector<TraceEvent> silent_faults;  ///< stop, continue, cut and heal of all ranks, likewise
  double trace_deaths_per_s = 0;          ///< mean, from the run's begin to the trace's last death
};

/// Mean time between two deaths, by faults.trace and, for so many peers that serve, by
/// faults.mtbf_s; 0: nobody is to die.
double between_deaths_s(const Preemption& preemption, const FaultsConfig& faults,
                        std::int64_t serving);

/// The events of faults.trace; a kill of each peer, drawn for faults.mtbf_s; and a notice
/// swarm.notice_s before each kill. Errors: bad_input, where the trace cannot be read, or has an
/// event that this run cannot do.
Result<Preemption> preemption_of(const Config& config, int rank, const RunPart& part);

/// Of a run in virtual time: those of all peers, newcomers too, in order of time. There a newcomer
/// needs no free rank. Errors: as above.
Result<std::vector<TraceEvent>> preemption_of_all(const Config& config, std::int64_t peers);

/// Mean time between two deaths of a run in virtual time with these events; 0: nobody is to die.
double between_deaths_s(const Config& config, const std::vector<TraceEvent>& all);
/// The same of a run that has not begun, of any fidelity, with all its peers. Errors: as above.
Result<double> between_deaths_s(const Config& config);

}  // namespace swarmpi
