#pragma once
// Saying once, for many ranks, why nothing is done.

#include <ostream>

#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// Prints what is wrong and returns the exit status of this process. Of many ranks the first
/// prints, after all have met: one that left alone would leave the others waiting. REQUIRES: MPI is
/// not started.
ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error);

// When 16 ranks left with 2 at once, mpirun 5.0.11 hung for good in 8 of 100 starts; when one did,
// or all did 20 ms apart, in none.

/// With which status a rank leaves when all live and know that the whole ended with this one:
/// mpirun hands on that of the rank that tells it, and the others add nothing.
inline ExitStatus status_of_rank(ExitStatus whole, bool tells) {
  return tells ? whole : ExitStatus::good;
}

/// Returns when it is this rank's turn to leave: for ends after which all leave with the status,
/// because none of them knows who else is left.
void await_turn_to_leave(int rank);

}  // namespace swarmpi
