#pragma once
// Actions for compute, and its events. Jobs run one at a time, on this peer's stages; each is
// answered by one JobFinished.

#include "core/field_list.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// Answered by JobFinished.
struct StartJob {
  Job job;
};
SWARMPI_FIELDS(StartJob, job);

struct JobFinished {
  JobResult result;
  double duration_s = 0;
};
SWARMPI_FIELDS(JobFinished, result, duration_s);

}  // namespace swarmpi
