#pragma once
// `swarmpi info`: this build, this machine, this MPI; the summary of a run; or several runs beside
// each other.

#include <ostream>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

/// `runs`: whatever NamedRun::open() understands; none: build and machine.
Status run_info(const std::vector<std::string>& runs, std::ostream& out);

/// The table of several runs, for a screen of so many columns.
Result<std::string> table_of(const std::vector<std::string>& runs, std::size_t columns);

}  // namespace swarmpi
