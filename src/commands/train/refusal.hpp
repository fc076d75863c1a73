#pragma once
// Printing an error once for many ranks, and leaving together.

#include <ostream>

#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// Prints `status` and returns the exit status of this process. Many ranks exchange theirs first
/// and rank 0 prints the first failure: a rank that left alone would leave the others waiting in
/// MPI_Init. REQUIRES: MPI is not started.
ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error);

// When 16 ranks left with 2 at once, mpirun 5.0.11 hung for good in 8 of 100 starts; when one did,
// or all did 20 ms apart, in none.

/// The exit status of a rank where all ranks live and know how the run ended: the rank that reports
/// the outcome exits with it, and the others with 0, so that mpirun sees one status.
inline ExitStatus status_of_rank(ExitStatus outcome, bool reports_outcome) {
  return reports_outcome ? outcome : ExitStatus::good;
}

/// Sleeps until it is this rank's turn to exit. For runs that have lost a rank: there every rank
/// exits with the status, because none knows which others are left to do so.
void await_turn_to_leave(int rank);

}  // namespace swarmpi
