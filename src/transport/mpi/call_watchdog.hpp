#pragma once
// A thread that ends this process when one call of MPI takes too long: MPI may hang when other
// ranks die, and a rank that hangs must not hold up the others.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace swarmpi {

/// Prints `why` and ends this process by SIGKILL. MPI reports a death to other ranks only where it
/// is by a signal; an exit, whatever its status, leaves those that share memory with this one
/// waiting.
[[noreturn]] void end_by_signal(const std::string& why);

class CallWatchdog {
 public:
  CallWatchdog();
  ~CallWatchdog();
  CallWatchdog(const CallWatchdog&) = delete;
  CallWatchdog& operator=(const CallWatchdog&) = delete;

  /// The rank that messages name; -1 while it is not known.
  void set_rank(int rank) { rank_ = rank; }

  /// Lives while one thread is in one call. Calls do not nest.
  class Call {
   public:
    /// `name` must live for ever: a literal.
    Call(CallWatchdog& watchdog, const char* name, double limit_s = 30) : watchdog_(watchdog) {
      watchdog_.limit_s_.store(limit_s, std::memory_order_relaxed);
      watchdog_.calls_.fetch_add(1, std::memory_order_relaxed);
      watchdog_.name_.store(name, std::memory_order_release);
    }
    ~Call() { watchdog_.name_.store(nullptr, std::memory_order_release); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallWatchdog& watchdog_;
  };

 private:
  void watch();

  std::atomic<const char*> name_ = nullptr;
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<double> limit_s_ = 0;
  std::atomic<int> rank_ = -1;
  std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace swarmpi
