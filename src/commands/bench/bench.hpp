#pragma once
// What the benchmarks share: their deck, their clock, and the roofline that their figures are held
// against.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "core/status.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

struct BenchOptions {
  std::vector<std::string> overrides;  ///< on top of the benchmark's own deck
  bool json = false;
};

/// The benchmarks' deck: six layers of 384 at context 256, four sequences, one microbatch a step,
/// ten steps.
Result<Config> bench_config(const std::vector<std::string>& overrides);

/// "6 layers of 384, 6 heads, context 256, vocabulary 256, 4 sequences, fp32, 1 thread".
std::string shape_line(const Config& config);

/// With one thread the time of the CPU: other programs' time slices on a shared machine do not
/// count. With more, time on the wall.
double bench_clock_s(std::int64_t threads);
double process_cpu_s();
double wall_s();
std::int64_t peak_memory_bytes();

struct Spread {
  double median = 0, min = 0, max = 0;
};
/// REQUIRES: not empty.
Spread spread(std::vector<double> values);

/// Seconds a call, of several timings, each of so many calls that the clock can tell. One call
/// before, untimed.
Spread time_calls(std::int64_t threads, const std::function<void()>& call);

/// FLOP/s of an n x n x n product on this backend.
double product_flops_per_s(kernels::Backend& backend, std::int64_t n, std::int64_t threads);

struct Roofline {
  double flops_per_s = 0;  ///< best square product of this backend
  double bytes_per_s = 0;  ///< copy of arrays larger than the caches; read and written bytes
};
/// The backend's scratch grows with the products measured here: measure memory before.
Roofline measure_roofline(kernels::Backend& backend, std::int64_t threads);

/// The same numbers in (-scale, scale) for the same name, whatever the stride.
void fill_random(kernels::Matrix matrix, std::uint32_t name, float scale);

}  // namespace swarmpi
