#include "commands/sweep/child.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "core/clock.hpp"
#include "io/descriptor.hpp"
#include "runtime/signals.hpp"

namespace swarmpi {
namespace {

// What it is asked to stop with. A terminal sends INT to the whole group that is in front: the
// command is in another, or it would be asked twice, which ends it at once.
constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

// One that was ignored when this process began stays so: nohup, a job in the background of a
// script.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// What a child does between fork and exec: it may call nothing but what a signal handler may.
class ChildStart {
 public:
  ChildStart(const std::vector<std::string>& command, const sigset_t& mask, bool silent)
      : words_(command), mask_(mask), silent_(silent) {
    for (std::string& word : words_) arguments_.push_back(word.data());
    arguments_.push_back(nullptr);
  }

  /// 0 or an errno.
  int start(pid_t& child) {
    std::array<int, 2> ends{};  // the child's errno, or nothing once it has become the command
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
    const Descriptor from_child(ends[0]);
    Descriptor to_parent(ends[1]);
    const pid_t parent = ::getpid();
    child = ::fork();
    if (child < 0) return errno;
    if (child == 0) become_command(parent, ends[1]);
    to_parent.close();
    int error = 0;
    while (::read(from_child.number(), &error, sizeof error) < 0 && errno == EINTR) {
    }
    if (error != 0) ::waitpid(child, nullptr, 0);
    return error;
  }

 private:
  [[noreturn]] void become_command(pid_t parent, int to_parent) {
    // One that is killed hands nothing on: mpirun and its ranks would go on alone.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);
    // A group that is not in front is halted where it reads from the terminal.
    redirect("/dev/null", O_RDONLY, {STDIN_FILENO});
    if (silent_) redirect("/dev/null", O_WRONLY, {STDOUT_FILENO, STDERR_FILENO});
    std::signal(SIGPIPE, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
    ::execvp(arguments_[0], arguments_.data());
    const int error = errno;
    (void)!::write(to_parent, &error, sizeof error);
    ::_exit(127);
  }

  static void redirect(const char* path, int flags, std::initializer_list<int> targets) {
    const int file = ::open(path, flags | O_CLOEXEC);
    for (const int target : targets) ::dup2(file, target);
  }

  std::vector<std::string> words_;
  std::vector<char*> arguments_;
  const sigset_t& mask_;
  bool silent_;
};

EndedChild wait_for(pid_t child, HeldSignals& signals) {
  EndedChild ended;
  const WallClock clock;
  double stopped_s = 0;
  while (true) {
    const int signal = signals.next();
    if (signal != SIGCHLD) {
      if (!ended.stopped) stopped_s = clock.now_s();
      if (ended.stopped && clock.now_s() - stopped_s < kSameRequestS) continue;
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

HeldSignals::HeldSignals() {
  sigemptyset(&stops_);
  for (const int signal : kStops) {
    if (!is_ignored(signal)) sigaddset(&stops_, signal);
  }
  std::signal(SIGCHLD, SIG_DFL);  // where it was ignored nobody would hear of a child's end
  held_ = stops_;
  sigaddset(&held_, SIGCHLD);
  sigprocmask(SIG_BLOCK, &held_, &before_);
}

HeldSignals::~HeldSignals() {
  while (take_stop()) {
  }
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

bool HeldSignals::take_stop() {
  const timespec at_once{};
  return sigtimedwait(&stops_, nullptr, &at_once) > 0;
}

int HeldSignals::next() {
  int signal = 0;
  sigwait(&held_, &signal);
  return signal;
}

std::string how_it_ended(const EndedChild& child) {
  return child.signal != 0 ? fmt::format("by signal {}", child.signal)
                           : fmt::format("with status {}", child.status);
}

Result<EndedChild> run_child(const std::vector<std::string>& command, HeldSignals& signals,
                             bool silent) {
  pid_t child = -1;
  if (const int error = ChildStart(command, signals.before(), silent).start(child)) {
    return Status::bad_input(
        fmt::format("cannot start {}: {}", command.front(), std::strerror(error)));
  }
  return wait_for(child, signals);
}

}  // namespace swarmpi
