#pragma once
// Saying once, for many ranks, why nothing is done.

#include <ostream>

#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// Prints what is wrong and returns the exit status. Of many ranks the first prints, after all have
/// met: one that left alone would leave the others waiting. REQUIRES: MPI is not started.
ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error);

}  // namespace swarmpi
