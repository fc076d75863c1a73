#pragma once
// Starts another process of this program while MPI runs (MPI_Comm_spawn). The two talk over an
// intercommunicator of their own. It is never merged with others (MPI_Intercomm_merge): that is a
// collective operation, in which a death could hang the rest.

#include <string>
#include <vector>

#include "core/status.hpp"
#include "transport/mpi/call_watchdog.hpp"
#include "transport/mpi/mpi.hpp"
#include "transport/mpi/process.hpp"

namespace swarmpi {

struct StartedProcess {
  MPI_Comm comm = MPI_COMM_NULL;
  Process process;
};

/// Starts this program with other arguments, in this working directory, and sends it `start_info`.
/// Takes some tenths of a second, in which MPI does nothing else. Errors: failed.
Result<StartedProcess> start_process(CallWatchdog& watchdog,
                                     const std::vector<std::string>& arguments,
                                     const std::string& start_info);

/// The start-up data from the process that has started this one. REQUIRES: `parent` is the
/// communicator with it.
Result<std::string> receive_start_info(CallWatchdog& watchdog, MPI_Comm parent);

}  // namespace swarmpi
