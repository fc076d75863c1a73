#pragma once
// Starting another process of this program while MPI runs (MPI_Comm_spawn). The two talk over an
// intercommunicator of theirs, and are never merged with others: that would be a collective, which
// a death could hang.

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

/// Starts this very program with other arguments, in this working directory, and tells it `hello`.
/// Takes some tenths of a second, in which MPI does nothing else. Errors: failed.
Result<StartedProcess> start_process(CallWatchdog& watchdog,
                                     const std::vector<std::string>& arguments,
                                     const std::string& start_info);

/// What whoever has started this process tells it. REQUIRES: `parent` is its communicator.
Result<std::string> hear_hello(CallWatchdog& watchdog, MPI_Comm parent);

}  // namespace swarmpi
