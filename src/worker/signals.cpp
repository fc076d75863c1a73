#include "worker/signals.hpp"

#include <csignal>
#include <ctime>
#include <string>

namespace swarmpi {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "interrupted (SIGINT)";
    case SIGTERM:
      return "asked to terminate (SIGTERM)";
    default:
      return "asked to stop (SIGUSR1)";
  }
}

[[noreturn]] void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  std::quick_exit(1);
}

}  // namespace

void block_stop_signals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void survive_file_size_limits() { std::signal(SIGXFSZ, SIG_IGN); }

SignalWatch::SignalWatch(Inbox& inbox) : thread_([this, &inbox] { watch(inbox); }) {}

SignalWatch::~SignalWatch() {
  stopping_ = true;
  thread_.join();
}

void SignalWatch::watch(Inbox& inbox) {
  const sigset_t set = stop_signals();
  const timespec often{0, 100'000'000};
  bool asked = false;
  while (!stopping_) {
    const int signal = sigtimedwait(&set, nullptr, &often);
    if (signal < 0) continue;
    if (asked && signal != SIGUSR1) die_of(signal);
    asked = true;
    inbox.post(StopRequested{name_of(signal)});
  }
}

}  // namespace swarmpi
