#pragma once
// Emulated lines that several peers share, in processes of one host.

#include "commands/train/prepared_run.hpp"
#include "core/status.hpp"
#include "transport/mpi/session.hpp"

namespace swarmpi {

/// Whether all ranks are on one host, where peers share emulated lines; all ranks get the same
/// answer. Errors: bad_input, naming the line.
Status check_common_lines(const MpiSession& session, const PreparedRun& run);
/// Collective, as those of handshake.hpp: gives the run its `common_lines`, where its peers share
/// any. Errors: failed, naming the rank. REQUIRES: check_common_lines().
Status share_lines(MpiSession& session, PreparedRun& run);

}  // namespace swarmpi
