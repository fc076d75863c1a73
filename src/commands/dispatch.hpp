#pragma once
// From arguments to an exit status: all of main() but its streams.

#include <ostream>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// Runs the command that `arguments` (without the program's name) ask for. Messages for errors go
/// to `error`.
ExitStatus run_command_line(const std::vector<std::string>& arguments, const Launcher& launcher,
                            std::ostream& out, std::ostream& error);

}  // namespace swarmpi
