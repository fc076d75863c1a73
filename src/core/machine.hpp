#pragma once
// The machine that this process runs on: its name, its CPU, and what of its cores and memory the
// process may use. Batch systems and containers grant less than the machine has.

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace swarmpi {

struct Machine {
  std::string cpu;                 ///< model name
  std::vector<std::string> flags;  ///< instruction sets that kernels use, as in /proc/cpuinfo
  std::int64_t cores = 1;          ///< that this process may use
  std::int64_t memory_bytes = 0;   ///< that this process may use

  bool has(const std::string& flag) const;
  /// Products of bf16 in hardware: without, bf16 is emulated and slower than fp32.
  bool bf16_products() const { return has("amx_bf16") || has("avx512_bf16"); }
};

/// Reads /proc/cpuinfo and the limits of this process.
Machine this_machine();

/// Model name and flags from text like /proc/cpuinfo.
Machine parse_cpuinfo(std::istream& cpuinfo);

/// One sentence for people: whether precision = "bf16" pays on this CPU.
std::string bf16_advice(const Machine& machine);

/// The least of the machine's memory, the limits of the process's control groups, and its limit on
/// address space (ulimit -v).
std::int64_t usable_memory_bytes();

/// What of that is free now: the least of the machine's available memory, and of what its control
/// groups and its limit on address space leave. The largest number where nothing can be read.
std::int64_t free_memory_bytes();

/// The most memory that this process has had so far.
std::int64_t peak_memory_bytes();

/// What the control groups leave, where one of them has a limit; caches of files count as free.
std::int64_t cgroup_free_bytes(const std::string& root);

/// The least limit of the control groups (version 1 and 2) that this process is in, their ancestors
/// included; the largest number where there is none. `root` stands for "/".
std::int64_t cgroup_memory_bytes(const std::string& root);

/// The machine's host name; "unknown" where the system gives none.
std::string host_name();

}  // namespace swarmpi
