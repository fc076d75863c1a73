#include "commands/sweep/child.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace swarmpi {
namespace {

// What it is asked to stop with. A terminal sends INT to the whole group that is in front: the
// command is in another, or it would be asked twice, which ends it at once.
constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// One that was ignored when this process began stays so: nohup, a job in the background of a
// script.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// These signals, and the one that tells of a child's end, wait while this lives until somebody
// asks for them.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int signal : kStops) {
      if (!is_ignored(signal)) sigaddset(&held_, signal);
    }
    std::signal(SIGCHLD, SIG_DFL);  // where it was ignored nobody would hear of a child's end
    sigaddset(&held_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  int next() const {
    int signal = 0;
    sigwait(&held_, &signal);
    return signal;
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t held_{}, before_{};
};

// How the command is started: its signals as if nothing had been set here, nothing to read.
class SpawnSettings {
 public:
  SpawnSettings(const sigset_t& mask, bool silent) {
    posix_spawnattr_init(&attributes_);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setsigmask(&attributes_, &mask);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&files_);
    // A group that is not in front is halted where it reads from the terminal.
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
      if (silent) posix_spawn_file_actions_addopen(&files_, output, "/dev/null", O_WRONLY, 0);
    }
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  /// 0 or an errno.
  int start(const std::vector<std::string>& command, pid_t& child) {
    std::vector<std::string> words = command;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    return posix_spawnp(&child, arguments[0], &files_, &attributes_, arguments.data(), environ);
  }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t files_{};
};

EndedChild wait_for(pid_t child, const HeldSignals& signals) {
  EndedChild ended;
  while (true) {
    const int signal = signals.next();
    if (signal != SIGCHLD) {
      kill(child, ended.stopped ? SIGTERM : SIGUSR1);
      ended.stopped = true;
      continue;
    }
    int how = 0;
    if (waitpid(child, &how, WNOHANG) != child) continue;
    if (WIFSIGNALED(how)) ended.signal = WTERMSIG(how);
    if (WIFEXITED(how)) ended.status = WEXITSTATUS(how);
    return ended;
  }
}

}  // namespace

std::string how_it_ended(const EndedChild& child) {
  return child.signal != 0 ? fmt::format("by signal {}", child.signal)
                           : fmt::format("with status {}", child.status);
}

Result<EndedChild> run_child(const std::vector<std::string>& command, bool silent) {
  const HeldSignals signals;
  pid_t child = -1;
  if (const int error = SpawnSettings(signals.before(), silent).start(command, child)) {
    return Status::stopped(
        fmt::format("cannot start {}: {}", command.front(), std::strerror(error)));
  }
  return wait_for(child, signals);
}

}  // namespace swarmpi
