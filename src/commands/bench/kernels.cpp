#include "commands/bench/kernels.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>

#include "commands/bench/kernel_operations.hpp"
#include "core/machine.hpp"
#include "core/version.hpp"
#include "model/make_backend.hpp"

namespace swarmpi {
namespace {

using Json = nlohmann::ordered_json;

struct Measured {
  std::string name;
  double error = 0, bound = 0;
  Spread time_s;
  double flops = 0, bytes = 0;

  bool valid() const { return error <= bound; }
  // In the unit of the roof that bounds this operation.
  double rate() const { return (flops > 0 ? flops : bytes) / time_s.median; }
  double share(const Roofline& roof) const {
    return rate() / (flops > 0 ? roof.flops_per_s : roof.bytes_per_s);
  }
};

std::vector<Measured> compare(const KernelOperations& native, const KernelOperations& reference) {
  std::vector<Measured> all;
  for (std::size_t i = 0; i < native.operations().size(); ++i) {
    const Operation& fast = native.operations()[i];
    const Operation& exact = reference.operations()[i];
    fast.run();
    exact.run();
    const double error = relative_error(native.outputs(i), reference.outputs(i));
    all.push_back({fast.name, error, fast.bound, {}, fast.flops, fast.bytes});
  }
  return all;
}

void print_kernel_table(const std::vector<Measured>& all, const Roofline& roof, std::ostream& out) {
  out << fmt::format("{:39} {:>10} {:>9} {:>9} {:>12} {:>7}\n", "operation", "time", "error",
                     "bound", "rate", "of roof");
  for (const Measured& m : all) {
    out << fmt::format("{:39} {:>7.1f} us {:>9.1e} {:>9.1e} {:>7.1f} {} {:>6.0f}%{}\n", m.name,
                       1e6 * m.time_s.median, m.error, m.bound, 1e-9 * m.rate(),
                       m.flops > 0 ? "GF/s" : "GB/s", 100 * m.share(roof),
                       m.valid() ? "" : "  INVALID");
  }
  out << fmt::format(
      "roof: {:.1f} GF/s (best square product), {:.1f} GB/s (copy beyond the caches; smaller "
      "arrays may pass 100%)\n",
      1e-9 * roof.flops_per_s, 1e-9 * roof.bytes_per_s);
}

void print_json(const std::vector<Measured>& all, const Roofline& roof, bool valid,
                const Config& config, std::ostream& out) {
  const Machine machine = this_machine();
  std::vector<Json> operations;
  for (const Measured& m : all) {
    operations.push_back(Json{{"name", m.name},
                              {"time_s_median", m.time_s.median},
                              {"time_s_min", m.time_s.min},
                              {"time_s_max", m.time_s.max},
                              {"flops", m.flops},
                              {"bytes", m.bytes},
                              {"share_of_roof", m.share(roof)},
                              {"error", m.error},
                              {"bound", m.bound},
                              {"valid", m.valid()}});
  }
  out << Json{{"bench", "kernels"},
              {"version", version_line()},
              {"cpu", machine.cpu},
              {"cpu_flags", machine.flags},
              {"shape", shape_line(config)},
              {"precision", name_of(config.model.precision)},
              {"threads", config.compute.threads},
              {"roof_flops_per_s", roof.flops_per_s},
              {"roof_bytes_per_s", roof.bytes_per_s},
              {"operations", operations},
              {"valid", valid}}
      << "\n";
}

Result<std::unique_ptr<kernels::Backend>> backend_of(Kernels kernels, Config config) {
  config.compute.kernels = kernels;
  auto backend = make_backend(config);
  if (backend.ok()) backend.value()->prepare_thread();
  return backend;
}

}  // namespace

Status run_bench_kernels(const BenchOptions& options, std::ostream& out) {
  const Result<Config> checked = bench_config(options.overrides);
  if (!checked.ok()) return checked.status();
  const Config& config = checked.value();

  const auto exact_backend = backend_of(Kernels::reference, config);
  const bool on_gpu = config.compute.kernels == Kernels::cuda;
  const auto fast_backend = backend_of(on_gpu ? Kernels::cuda : Kernels::native, config);
  if (!exact_backend.ok()) return exact_backend.status();
  if (!fast_backend.ok()) return fast_backend.status();
  const auto& reference = exact_backend.value();
  const auto& measured = fast_backend.value();
  const KernelOperations exact(config, *reference), fast(config, *measured);
  std::vector<Measured> all = compare(fast, exact);
  const std::int64_t threads = clock_threads(config, *measured);
  const Roofline roof = measure_roofline(*measured, threads);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].time_s = time_calls(threads, measured.get(), fast.operations()[i].run);

  std::string invalid;
  for (const Measured& m : all) {
    if (!m.valid()) invalid += (invalid.empty() ? "" : ", ") + m.name;
  }
  if (options.json) {
    print_json(all, roof, invalid.empty(), config, out);
  } else {
    out << "kernels: " << measured->name() << " against " << reference->name() << "; "
        << shape_line(config) << "\n"
        << (on_gpu ? measured->identity() : this_machine().cpu) << "\n";
    print_kernel_table(all, roof, out);
    out << (invalid.empty() ? "VALID: every operation agrees with its reference\n"
                            : "INVALID: " + invalid + "\n");
  }
  if (invalid.empty()) return {};
  return Status::failed(
      "bench kernels: results differ from the reference by more than their bounds: " + invalid);
}

}  // namespace swarmpi
