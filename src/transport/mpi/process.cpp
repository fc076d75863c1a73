#include "transport/mpi/process.hpp"

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
  if (start_of(process.id) != process.started) return true;
  return kill(static_cast<pid_t>(process.id), SIGKILL) == 0 || errno == ESRCH;
}

}  // namespace swarmpi
