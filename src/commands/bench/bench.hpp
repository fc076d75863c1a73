#pragma once
// What the benchmarks share: their deck, their clock, and the roofline that their figures are
// compared with.

#include <cstdint>
#include <functional>
#include <map>
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

/// With one thread CPU time, which leaves out the time slices of other programs on a shared
/// machine; with more, wall-clock time.
double bench_clock_s(std::int64_t threads);
/// For the clock on the wall in any case: a device computes while the CPU waits.
inline constexpr std::int64_t kOnTheWall = 2;
/// Whether operations are done elsewhere, behind the back of who calls them.
bool is_device(const kernels::Backend& backend);
/// By which clock this backend's work is timed.
std::int64_t clock_threads(const Config& config, const kernels::Backend& backend);
double process_cpu_s();
double wall_s();

struct Spread {
  double median = 0, min = 0, max = 0;
};
/// REQUIRES: not empty.
Spread spread(std::vector<double> values);

/// Seconds a call, over several timings, each of enough calls for the clock's resolution, after one
/// untimed call. `backend`: whose operations they call, which are done at the end of each timing;
/// null: none.
Spread time_calls(std::int64_t threads, kernels::Backend* backend,
                  const std::function<void()>& call);

/// FLOP/s of an n x n x n product on this backend.
double product_flops_per_s(kernels::Backend& backend, std::int64_t n, std::int64_t threads);

struct Roofline {
  double flops_per_s = 0;  ///< best square product of this backend
  double bytes_per_s = 0;  ///< copy of arrays larger than the caches; read and written bytes
};
/// Measures both. The backend's scratch memory grows with these products: read peak memory before.
Roofline measure_roofline(kernels::Backend& backend, std::int64_t threads);

/// Adds up the time of each operation of a backend that it listens to.
class OperationTimes final : public kernels::OperationListener {
 public:
  struct Use {
    std::string name;
    std::int64_t calls = 0;
    double time_s = 0;  ///< by bench_clock_s(threads)
  };

  /// `device`: waited for at the end of each operation, where it does them behind the caller's
  /// back.
  explicit OperationTimes(std::int64_t threads, kernels::Backend* device = nullptr)
      : threads_(threads), device_(device) {}

  void begins(const char* operation) override;
  void ends(const char* operation) override;
  /// The longest first.
  std::vector<Use> uses() const;

 private:
  std::int64_t threads_;
  kernels::Backend* device_;
  bool waits_ = false;
  double start_s_ = 0;
  std::map<std::string, Use, std::less<>> uses_;
};

/// Numbers in (-scale, scale) for a dense matrix, which depend on `name` and position.
std::vector<float> random_values(std::int64_t rows, std::int64_t columns, std::uint32_t name,
                                 float scale);
/// Fills a matrix of the backend with them.
void fill_random(kernels::Backend& backend, kernels::Matrix matrix, std::uint32_t name,
                 float scale);

}  // namespace swarmpi
