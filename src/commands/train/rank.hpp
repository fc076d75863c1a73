#pragma once
// The peers of one process while it trains: one; or, where preemption is emulated, one after
// another.

#include "commands/train/run_peer.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// Runs the peers of this process. `hosts`: names of all hosts, for the journal. REQUIRES: all
/// ranks of the session call it.
Outcome run_rank(PreparedRun& run, Stages stages, MpiSession& session, const std::string& hosts,
                 Inbox& inbox);

}  // namespace swarmpi
