#include "runtime/signals.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "core/clock.hpp"
#include "protocol/messages/process_port.hpp"

namespace swarmpi {
namespace {

const char* signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "interrupted (SIGINT)";
    case SIGTERM:
      return "asked to terminate (SIGTERM)";
    case SIGUSR2:
      return "asked to stop (SIGUSR2)";
    case SIGXCPU:
      return "limit of CPU time (SIGXCPU)";
    default:
      return "asked to stop (SIGUSR1)";
  }
}

bool is_notice(int signal) {
  return std::find(kNotices.begin(), kNotices.end(), signal) != kNotices.end();
}

[[noreturn]] void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  std::abort();
}

}  // namespace

SignalWatch::SignalWatch(Inbox& inbox, bool launched) : inbox_(inbox) {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGINT);
  for (const int notice : kNotices) sigaddset(&watched_, notice);
  if (!launched) sigaddset(&watched_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  ending_ = true;
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalWatch::watch() {
  const timespec often{0, 100'000'000};
  const WallClock clock;
  std::optional<double> asked_s;
  while (!ending_) {
    const int signal = sigtimedwait(&watched_, nullptr, &often);
    if (signal < 0) continue;
    if (!delivering_) die_of(signal);
    if (asked_s && clock.now_s() - *asked_s < kSameRequestS) continue;
    if (asked_s && !is_notice(signal)) die_of(signal);
    if (!asked_s) asked_s = clock.now_s();
    inbox_.post(StopRequested{signal_name(signal)});
  }
}

void survive_file_size_limits() { std::signal(SIGXFSZ, SIG_IGN); }

}  // namespace swarmpi
