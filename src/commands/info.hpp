#pragma once
// `swarmpi info`: this build, this machine, this MPI; or the summary of a run.

#include <ostream>
#include <string>

#include "core/status.hpp"

namespace swarmpi {

/// `run`: a run file, or "" for build and machine.
Status run_info(const std::string& run, std::ostream& out);

}  // namespace swarmpi
