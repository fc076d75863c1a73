#include "core/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include "core/memory.hpp"
#include "core/text.hpp"

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

std::string with_unit(double value, double base, const std::array<const char*, 5>& units) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && std::abs(value) >= base * 0.9995) {
    value /= base;
    ++unit;
  }
  if (unit == 0) return format("%.0f%s", value, units[0]);
  const int digits = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return format("%.*f%s", digits, value, units[unit]);
}

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

std::string readable_bytes(double bytes) {
  return with_unit(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string readable_count(double count) {
  return with_unit(count, 1000, {"", " k", " M", " G", " T"});
}

}  // namespace swarmpi
