#pragma once
// Who lives in this process while it trains: one peer; or, where preemption is emulated, one after
// another.

#include "commands/train/run_peer.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// The peer of a process that is alone.
Outcome run_alone(Preparation& run, Stages stages, Inbox& inbox, bool quiet);

/// Of many ranks. REQUIRES: all ranks call it.
Outcome run_rank(Preparation& run, Stages stages, MpiSession& session, const std::string& hosts,
                 Inbox& inbox, bool quiet);

}  // namespace swarmpi
