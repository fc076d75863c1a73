#include "transport/mpi/process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/archive.hpp"
#include "core/machine.hpp"

namespace swarmpi {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string target_of(const char* link) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = readlink(link, text.data(), text.size());
  return size < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(size));
}

// Network name spaces share a kernel, and containers may share a name: it takes all three to tell
// hosts apart.
std::string this_host() {
  return host_name() + "/" + first_line("/proc/sys/kernel/random/boot_id") + "/" +
         target_of("/proc/self/ns/pid");
}

// A field of a line of /proc/ID/stat, counted from 1; at least the third: the second, a name, may
// hold anything. "" where there is none.
std::string stat_field(const std::string& line, int number) {
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return fields ? field : "";
}

// -1: no such process.
std::int64_t start_of(std::int64_t id) {
  const std::string started =
      stat_field(first_line(("/proc/" + std::to_string(id) + "/stat").c_str()), 22);
  return started.empty() ? -1 : std::atoll(started.c_str());
}

// Headers older than the kernel do not have the numbers.
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

// Names a process for as long as it is open (a pidfd). Before Linux 5.3 there is none, and filters
// of system calls may refuse it: then the process goes by its number alone, which another may get.
class Handle {
 public:
  explicit Handle(std::int64_t id)
      : id_(static_cast<pid_t>(id)),
        number_(static_cast<int>(syscall(SYS_pidfd_open, id_, 0))),
        error_(number_ < 0 ? errno : 0) {}
  ~Handle() {
    if (number_ >= 0) close(number_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// An id that is not that of a process any more, though something still has it, is invalid:
  /// EINVAL, on later kernels ENOENT.
  bool has_ended() const {
    if (error_ == ESRCH || error_ == EINVAL || error_ == ENOENT) return true;
    if (number_ < 0) return ::kill(id_, 0) != 0 && errno == ESRCH;
    pollfd ends{number_, POLLIN, 0};
    return poll(&ends, 1, 0) == 1;
  }
  bool kill() const {
    const bool sent = number_ < 0
                          ? ::kill(id_, SIGKILL) == 0
                          : syscall(SYS_pidfd_send_signal, number_, SIGKILL, nullptr, 0) == 0;
    return sent || errno == ESRCH;
  }

 private:
  pid_t id_;
  int number_;
  int error_;
};

bool has_last_argument(std::int64_t id, const std::string& argument) {
  std::ifstream file("/proc/" + std::to_string(id) + "/cmdline");
  std::string last, next;
  while (std::getline(file, next, '\0')) last = next;
  return last == argument;
}

}  // namespace

Process this_process() {
  const std::int64_t id = getpid();
  return {this_host(), id, start_of(id)};
}

Process unpack_process(const std::string& bytes) {
  const Result<Process> process = from_bytes<Process>(bytes);
  return process.ok() ? process.value() : Process();
}

bool kill_process(const Process& process) {
  if (process.host != this_host() || process.id <= 0) return false;
  // The handle stays that of the process that has the id now, also when another gets the id.
  const Handle handle(process.id);
  const std::int64_t started = start_of(process.id);
  if (handle.has_ended()) return true;
  if (started < 0 || process.started < 0) return false;
  return started != process.started || handle.kill();
}

bool thread_runs_no_more(const std::string& stat) {
  constexpr std::uint64_t kExits = 4;  // PF_EXITING of the kernel
  const std::string state = stat_field(stat, 3);
  const auto bits = [&](int field) {
    return std::strtoull(stat_field(stat, field).c_str(), nullptr, 10);
  };
  const bool is_killed = (bits(31) >> (SIGKILL - 1) & 1) != 0;
  return state == "Z" || state == "X" || (bits(9) & kExits) != 0 || (state == "D" && is_killed);
}

bool runs_no_more(const Process& process) {
  if (process.host != this_host() || process.id <= 0 || process.started < 0) return false;
  const std::int64_t started = start_of(process.id);
  if (started != process.started) return started >= 0 || Handle(process.id).has_ended();
  std::error_code unknown;
  const std::filesystem::path tasks = "/proc/" + std::to_string(process.id) + "/task";
  int threads = 0;
  for (std::filesystem::directory_iterator task(tasks, unknown), end; task != end;
       task.increment(unknown)) {
    if (!thread_runs_no_more(first_line((task->path() / "stat").c_str()))) return false;
    ++threads;
  }
  return threads > 0;
}

void kill_processes_with(const std::string& last_argument) {
  std::error_code unknown;
  const std::string program = target_of("/proc/self/exe");
  const std::string host = this_host();
  for (std::filesystem::directory_iterator entry("/proc", unknown), end; entry != end;
       entry.increment(unknown)) {
    const std::int64_t id = std::atoll(entry->path().filename().c_str());
    if (id <= 0 || id == getpid()) continue;
    const Process process{host, id, start_of(id)};
    if (target_of((entry->path() / "exe").c_str()) == program &&
        has_last_argument(id, last_argument))
      kill_process(process);
  }
}

}  // namespace swarmpi
