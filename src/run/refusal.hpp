#pragma once
// Saying once, for many ranks, why a run does not start.

#include <ostream>

#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// Of something that all ranks find wrong alike, the first prints the message. Returns the exit
/// status.
ExitStatus refuse_to_start(const Launcher& launcher, const Status& status, std::ostream& error);

}  // namespace swarmpi
