#pragma once
// Newcomers: processes that a rank has started while the run goes on (swarm.spawn). They are told
// all that they must know by the rank that has started them, and ask to join.

#include <cstdint>
#include <string>
#include <vector>

#include "commands/train/preparation.hpp"
#include "core/ids.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// The command line of such a process.
std::vector<std::string> arguments_of_spawned();

/// What it is told.
std::string newcomer_info(const Preparation& run, PeerId newcomer, std::int64_t peers_on_host);

/// The process itself; leaves without a word once the run goes on without it.
ExitStatus run_spawned();

}  // namespace swarmpi
