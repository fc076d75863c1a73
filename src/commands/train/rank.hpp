#pragma once
// The peers of one process while it trains: one; or, where preemption is emulated, one after
// another.

#include "commands/train/run_peer.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// Runs the only peer of a run that has one process, without MPI.
Outcome run_alone(PreparedRun& run, Stages stages, Inbox& inbox, bool quiet);

/// Runs the peers of this rank of a run over MPI. `hosts`: names of all hosts, for the journal.
/// REQUIRES: all ranks call it.
Outcome run_rank(PreparedRun& run, Stages stages, MpiSession& session, const std::string& hosts,
                 Inbox& inbox, bool quiet);

}  // namespace swarmpi
