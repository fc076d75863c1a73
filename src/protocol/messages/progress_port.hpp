#pragma once
// Whether compute and storage make progress.

#include <cstdint>
#include <string>

#include "core/field_list.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// How far a lane has come.
struct LaneProgress {
  std::int64_t done = 0;   ///< actions that are done or given up, of all that were asked for
  std::int64_t calls = 0;  ///< of the file system that have returned
  std::string running;     ///< what it does, for people; "": nothing
  double cpu_s = 0;        ///< that its thread has used
};
SWARMPI_FIELDS(LaneProgress, done, calls, running, cpu_s);

/// The answer to ProbeWork.
struct WorkProbed {
  double job_cpu_s = 0;  ///< CPU time that jobs have used so far
  LaneProgress run, stages;
};
SWARMPI_FIELDS(WorkProbed, job_cpu_s, run, stages);

/// Tell how far the work has come; answered at once, by WorkProbed.
struct ProbeWork {};
SWARMPI_FIELDS(ProbeWork);

/// What was asked of this lane and is not answered is not wanted any more: a call that is running
/// touches nothing once it returns, and nothing is answered.
struct AbandonLane {
  Lane lane = Lane::run;
};
SWARMPI_FIELDS(AbandonLane, lane);

}  // namespace swarmpi
