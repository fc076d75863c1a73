#pragma once
// Newcomers: processes that a rank spawns while the run goes on (swarm.spawn). That rank sends each
// all that it must know; the newcomer then asks to join the swarm.

#include <cstdint>
#include <string>
#include <vector>

#include "commands/train/prepared_run.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// The arguments with which such a process is started.
std::vector<std::string> arguments_of_spawned();

/// The message to the process that will be `newcomer`: deck, outputs, build, fingerprint and
/// restart state. run_spawned() reads it.
std::string packed_newcomer_info(const PreparedRun& run, PeerId newcomer,
                                 std::int64_t peers_on_host);

/// Runs such a process to its end. Prints what failed; a newcomer that the run no longer needs ends
/// silently.
ExitStatus run_spawned();

}  // namespace swarmpi
