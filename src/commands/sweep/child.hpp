#pragma once
// A command that this process starts and waits for.

#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

/// How it ended.
struct EndedChild {
  int status = 0;        ///< its exit status, 0 where a signal has ended it
  int signal = 0;        ///< that has ended it; 0: none
  bool stopped = false;  ///< this process was asked to stop meanwhile, and has handed that on
};

/// "with status 3", "by signal 9".
std::string how_it_ended(const EndedChild& child);

/// Starts the command, looked up on PATH, in a process group of its own, and waits for its end. The
/// first INT, TERM, HUP or USR1 that comes meanwhile becomes USR1 to it, which mpirun hands on to
/// all ranks: a checkpoint, and the end. A second one becomes TERM. `silent`: what it prints is
/// discarded. Errors: stopped, where it cannot be started. REQUIRES: one at a time, in the main
/// thread, while there are no others.
Result<EndedChild> run_child(const std::vector<std::string>& command, bool silent = false);

}  // namespace swarmpi
