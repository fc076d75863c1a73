#pragma once
// How much memory this process may use: batch systems and containers grant less than the machine
// has.

#include <cstdint>
#include <string>

namespace swarmpi {

/// The least of the machine's memory, the limits of the process's control groups, and its limit on
/// address space (ulimit -v).
std::int64_t usable_memory_bytes();

/// The least limit of the control groups (version 1 and 2) that this process is in, their ancestors
/// included; the largest number where there is none. `root` stands for "/".
std::int64_t cgroup_memory_bytes(const std::string& root);

}  // namespace swarmpi
