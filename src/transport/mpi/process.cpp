#include "transport/mpi/process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
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

// Field 22 of /proc/ID/stat, 20 behind the name, which may hold anything; -1: no such process.
std::int64_t start_of(std::int64_t id) {
  const std::string line = first_line(("/proc/" + std::to_string(id) + "/stat").c_str());
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;
  std::int64_t started = -1;
  fields >> started;
  return started;
}

// Names a process for as long as it is open (a pidfd: Linux 5.3).
struct Handle {
  explicit Handle(std::int64_t id) : number(static_cast<int>(syscall(SYS_pidfd_open, id, 0))) {}
  ~Handle() {
    if (number >= 0) close(number);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  bool has_ended() const {
    pollfd ends{number, POLLIN, 0};
    return poll(&ends, 1, 0) == 1;
  }
  bool kill() const {
    return syscall(SYS_pidfd_send_signal, number, SIGKILL, nullptr, 0) == 0 || errno == ESRCH;
  }

  int number;
};

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
  if (handle.number < 0) return errno == ESRCH;
  const std::int64_t started = start_of(process.id);
  if (handle.has_ended()) return true;
  if (started < 0 || process.started < 0) return false;
  return started != process.started || handle.kill();
}

}  // namespace swarmpi
