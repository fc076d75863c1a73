#include "core/machine.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <sstream>

namespace swarmpi {
namespace {

constexpr std::array<const char*, 8> kFlagsThatMatter = {
    "avx2", "fma", "avx512f", "avx512dq", "avx512_bf16", "amx_bf16", "asimd", "sve"};

std::int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
}

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number in a file; unlimited where there is no file or it says "max".
std::int64_t limit_in(const std::string& file) {
  std::int64_t limit = 0;
  return std::ifstream(file) >> limit ? limit : kUnlimited;
}

/// The number behind a key of a file of keys and numbers; 0 where there is none.
std::int64_t value_in(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  std::string word;
  std::int64_t value = 0;
  while (lines >> word) {
    if (lines >> value && word == key) return value;
    lines.clear();
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

/// The files of a group in which its limit and its use stand.
struct GroupFiles {
  const char* limit;
  const char* used;
};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current"};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes"};

std::int64_t limit_of(const std::string& folder, const GroupFiles& files) {
  return limit_in(folder + "/" + files.limit);
}

/// What is left of a limit. Caches of files are given back when memory is asked for.
std::int64_t free_in(const std::string& folder, const GroupFiles& files) {
  const std::int64_t limit = limit_of(folder, files);
  const std::int64_t used = limit_in(folder + "/" + files.used);
  if (limit == kUnlimited || used == kUnlimited) return kUnlimited;
  const std::string statistics = folder + "/memory.stat";
  const std::int64_t caches =
      value_in(statistics, "inactive_file") + value_in(statistics, "active_file");
  return std::max<std::int64_t>(limit - std::max<std::int64_t>(used - caches, 0), 0);
}

using OfGroup = std::int64_t (*)(const std::string& folder, const GroupFiles& files);

/// The least of the group and of those above it. A container may see only its own group, under the
/// root of the mount: groups that are not there have no say.
std::int64_t least_of(const std::string& mount, std::string group, const GroupFiles& files,
                      OfGroup of) {
  std::int64_t least = kUnlimited;
  for (;;) {
    least = std::min(least, of(mount + group, files));
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

/// Whether a list like "cpu,memory" names the controller of memory.
bool holds_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

/// The least of all groups that this process is in.
std::int64_t least_of_groups(const std::string& root, OfGroup of) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::int64_t least = kUnlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  // number:controllers:/group, in version 2 without controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min({least, least_of(mount, group, kVersion2, of),
                        least_of(mount + "/unified", group, kVersion2, of)});
    } else if (holds_memory(controllers)) {
      least = std::min(least, least_of(mount + "/memory", group, kVersion1, of));
    }
  }
  return least;
}

std::int64_t address_space_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return static_cast<std::int64_t>(std::min(limit.rlim_cur, static_cast<rlim_t>(kUnlimited)));
}

constexpr std::int64_t kKib = 1024;  // what /proc counts in

}  // namespace

bool Machine::has(const std::string& flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

Machine parse_cpuinfo(std::istream& cpuinfo) {
  Machine machine;
  std::string line;
  bool flags_read = false;
  while (std::getline(cpuinfo, line) && !(flags_read && !machine.cpu.empty())) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    const std::string value = start == std::string::npos ? "" : line.substr(start);
    if (key == "model name" && machine.cpu.empty()) machine.cpu = value;
    if ((key == "flags" || key == "Features") && !flags_read) {
      flags_read = true;
      std::istringstream words(value);
      for (std::string word; words >> word;) {
        if (std::find(kFlagsThatMatter.begin(), kFlagsThatMatter.end(), word) !=
            kFlagsThatMatter.end())
          machine.flags.push_back(word);
      }
    }
  }
  if (machine.cpu.empty()) machine.cpu = "unknown CPU";
  return machine;
}

Machine this_machine() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  Machine machine = parse_cpuinfo(cpuinfo);
  machine.cores = usable_cores();
  machine.memory_bytes = usable_memory_bytes();
  return machine;
}

std::string bf16_advice(const Machine& machine) {
  if (machine.has("amx_bf16"))
    return "bf16 pays on this CPU (AMX): products about four times as fast as in fp32";
  if (machine.has("avx512_bf16"))
    return "bf16 pays on this CPU if its AVX-512 bf16 unit is fast (AMD: products about twice as "
           "fast as in fp32): measure with `swarmpi bench model --set model.precision=\"bf16\"`";
  return "bf16 does not pay on this CPU: it has neither AMX nor AVX-512 bf16, so it is slower than "
         "fp32";
}

std::int64_t cgroup_memory_bytes(const std::string& root) {
  return least_of_groups(root, limit_of);
}

std::int64_t cgroup_free_bytes(const std::string& root) { return least_of_groups(root, free_in); }

std::int64_t usable_memory_bytes() {
  const std::int64_t physical =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return std::min({physical, cgroup_memory_bytes(""), address_space_limit()});
}

std::int64_t free_memory_bytes() {
  const std::int64_t available = kKib * value_in("/proc/meminfo", "MemAvailable:");
  const std::int64_t limit = address_space_limit();
  const std::int64_t taken =
      limit == kUnlimited ? 0 : kKib * value_in("/proc/self/status", "VmSize:");
  return std::min({available > 0 ? available : kUnlimited, cgroup_free_bytes(""), limit - taken});
}

std::int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return kKib * usage.ru_maxrss;
}

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace swarmpi
