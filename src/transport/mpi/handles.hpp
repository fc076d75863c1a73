#pragma once
// What the sources of transport/mpi share of a session.

#include "transport/mpi/call_watchdog.hpp"
#include "transport/mpi/mpi.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

struct MpiSession::Handles {
  CallWatchdog watchdog;
  MPI_Comm swarm = MPI_COMM_NULL;   // a duplicate of the world, errors returned
  MPI_Comm parent = MPI_COMM_NULL;  // with the process that has started this one
  int rank = 0;
  int ranks = 1;
  int ranks_on_host = 1;
  int rank_on_host = 0;
  bool threads = false;  // MPI_THREAD_MULTIPLE
  bool lost_a_rank = false;
  bool hangs = false;  // a call in another thread that never returns: MPI_Finalize would hang
  bool finished = false;
};

}  // namespace swarmpi
