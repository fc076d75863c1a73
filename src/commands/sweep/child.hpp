#pragma once
// A command that this process starts and waits for.

#include <csignal>
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

/// INT, TERM, HUP and USR1, unless they were ignored, and what tells of a child's end wait while
/// this lives until somebody asks for them. Those that nobody has asked for are dropped at the end.
/// REQUIRES: one at a time, in the main thread, while there are no others.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Whether this process was asked to stop; each time counts once.
  bool take_stop();
  /// Waits for the next one.
  int next();
  /// What was blocked before.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t stops_{}, held_{}, before_{};
};

/// Starts the command, looked up on PATH, in a process group of its own, and waits for its end. The
/// first INT, TERM, HUP or USR1 that comes meanwhile becomes USR1 to it, which mpirun hands on to
/// all ranks: a checkpoint, and the end. A second one becomes TERM, and so does the end of this
/// process. `silent`: what it prints is discarded. Errors: stopped, where it cannot be started.
Result<EndedChild> run_child(const std::vector<std::string>& command, HeldSignals& signals,
                             bool silent = false);

}  // namespace swarmpi
