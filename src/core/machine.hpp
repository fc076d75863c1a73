#pragma once
// The machine we run on, as far as it decides speed and bits.

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace swarmpi {

struct Machine {
  std::string cpu;                 ///< model name
  std::vector<std::string> flags;  ///< of those that matter for kernels, the ones it has
  std::int64_t cores = 1;          ///< that this process may use
  std::int64_t memory_bytes = 0;   ///< that this process may use

  bool has(const std::string& flag) const;
  /// Products of bf16 in hardware: without, bf16 is emulated and slower than fp32.
  bool bf16_products() const { return has("amx_bf16") || has("avx512_bf16"); }
};

Machine this_machine();

/// Model name and flags from text like /proc/cpuinfo.
Machine parse_cpuinfo(std::istream& cpuinfo);

/// One sentence for people: whether precision = "bf16" pays on this CPU.
std::string bf16_advice(const Machine& machine);

/// "23.4 GiB", "512 KiB".
std::string readable_bytes(double bytes);

/// "812", "12.3 M", "1.23 G": three significant digits.
std::string readable_count(double count);

}  // namespace swarmpi
