#pragma once
// Signals as events: USR1, INT and TERM ask for checkpoint and stop. A second INT or TERM ends the
// process at once.

#include <atomic>
#include <thread>

#include "worker/inbox.hpp"

namespace swarmpi {

/// Blocks the signals in this thread and all that it starts later. To be called before any thread
/// is started.
void block_stop_signals();

/// Lets a write beyond a limit on file sizes fail like one on a full disk, instead of ending the
/// process.
void survive_file_size_limits();

/// Turns blocked stop signals into StopRequested events while it lives.
class SignalWatch {
 public:
  explicit SignalWatch(Inbox& inbox);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  void watch(Inbox& inbox);

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace swarmpi
