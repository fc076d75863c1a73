#include "transport/mpi/call_watchdog.hpp"

#include <fmt/core.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace swarmpi {
namespace {

constexpr std::chrono::milliseconds kWatchEvery{500};

}  // namespace

void end_by_signal(const std::string& why) {
  std::fprintf(stderr, "swarmpi: %s\n", why.c_str());
  std::fflush(stderr);
  raise(SIGKILL);  // no handler runs, for MPI may hold locks
  std::abort();
}

CallWatchdog::CallWatchdog() {
  // Signals are for the threads that expect them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CallWatchdog::~CallWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.join();
}

// Counts its own looks, not the clock: a process that was stopped as a whole has not waited.
void CallWatchdog::watch() {
  const double look_s = std::chrono::duration<double>(kWatchEvery).count();
  std::uint64_t seen = 0;
  double waited_s = 0;
  std::unique_lock lock(mutex_);
  while (!ending_changed_.wait_for(lock, kWatchEvery, [this] { return ending_; })) {
    const char* name = name_.load(std::memory_order_acquire);
    const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
    waited_s = name != nullptr && calls == seen ? waited_s + look_s : 0;
    seen = calls;
    if (waited_s < limit_s_.load(std::memory_order_relaxed) || name == nullptr) continue;
    const std::string who = rank_ < 0 ? "a process" : "rank " + std::to_string(rank_);
    end_by_signal(fmt::format(
        "{} has been in {} for {:.0f} s and is ended: MPI hangs, or other ranks do not answer", who,
        name, waited_s));
  }
}

}  // namespace swarmpi
