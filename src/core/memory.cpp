#include "core/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "core/text.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number in a file; unlimited where there is no file or it says "max".
std::int64_t limit_in(const std::string& file) {
  std::int64_t limit = 0;
  return std::ifstream(file) >> limit ? limit : kUnlimited;
}

/// The least limit of the group and of those above it. A container may see only its own group,
/// under the root of the mount: groups that are not there have no say.
std::int64_t least_limit(const std::string& mount, std::string group, const std::string& name) {
  std::int64_t least = kUnlimited;
  for (;;) {
    least =
        std::min(least, limit_in(format("%s%s/%s", mount.c_str(), group.c_str(), name.c_str())));
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

/// Whether a list like "cpu,memory" names the controller of memory.
bool holds_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::int64_t cgroup_memory_bytes(const std::string& root) {
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
      least = std::min({least, least_limit(mount, group, "memory.max"),
                        least_limit(mount + "/unified", group, "memory.max")});
    } else if (holds_memory(controllers)) {
      least = std::min(least, least_limit(mount + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

std::int64_t usable_memory_bytes() {
  const std::int64_t physical =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::int64_t address_space = kUnlimited;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    address_space =
        static_cast<std::int64_t>(std::min(limit.rlim_cur, static_cast<rlim_t>(kUnlimited)));
  }
  return std::min({physical, cgroup_memory_bytes(""), address_space});
}

}  // namespace swarmpi
