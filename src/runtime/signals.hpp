#pragma once
// Signals as events: INT, TERM, and the notices of batch systems ask for a checkpoint and a stop.
// Before there is anything to save, and at a second INT or TERM, the process dies of the signal.

#include <csignal>

#include <array>
#include <atomic>
#include <thread>

#include "runtime/inbox.hpp"

namespace swarmpi {

/// A signal that follows another this soon asks for nothing more: `timeout` sends its own to the
/// process, and once more to its group.
inline constexpr double kSameRequestS = 0.5;

/// By which batch systems announce the end of a job, or of its CPU time.
inline constexpr std::array kNotices{SIGUSR1, SIGUSR2, SIGXCPU};

/// Watches for stop signals while it lives. Must be made before any other thread, for threads
/// inherit the signal mask. One in a process.
class SignalWatch {
 public:
  /// `launched`: by mpirun or the like; then TERM is not watched, for a launcher's TERM comes too
  /// late for a checkpoint.
  SignalWatch(Inbox& inbox, bool launched);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// From now on a signal becomes a StopRequested event.
  void deliver() { delivering_ = true; }

 private:
  void watch();

  Inbox& inbox_;
  sigset_t watched_;
  sigset_t before_;  // this thread's mask, restored at the end
  std::atomic<bool> delivering_ = false;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

/// Makes a write beyond a limit on file sizes (ulimit -f) fail like one on a full disk, instead of
/// ending the process (SIGXFSZ).
void survive_file_size_limits();

}  // namespace swarmpi
