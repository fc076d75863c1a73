#include "commands/bench/bench.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "config/deck.hpp"
#include "core/random.hpp"
#include "model/layout.hpp"

namespace swarmpi {
namespace {

constexpr const char* kBenchDeck = R"([model]
layers = 6
width = 384
heads = 6
context = 256
vocab = 256
[train]
steps = 10
microbatches = 1
microbatch_size = 4
)";

double clock_s(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_product_flops_per_s(kernels::Backend& backend, std::int64_t threads) {
  double best = 0;
  const std::int64_t largest = is_device(backend) ? 8192 : 1024;
  for (std::int64_t n = 256; n <= largest; n *= 2) {
    best = std::max(best, product_flops_per_s(backend, n, threads));
  }
  return best;
}

double device_bytes_per_s(kernels::Backend& backend) {
  constexpr std::int64_t kElements = std::int64_t{1} << 28;  // 1 GiB
  constexpr std::size_t kBytes = kElements * sizeof(float);
  const auto from = backend.allocate(kBytes), to = backend.allocate(kBytes);
  const Spread time = time_calls(kOnTheWall, &backend, [&] {
    backend.copy({to->as<float>(), 1, kElements}, {from->as<float>(), 1, kElements});
  });
  return 2.0 * static_cast<double>(kBytes) / time.min;
}

double copy_bytes_per_s(std::int64_t threads) {
  constexpr std::size_t kBytes = std::size_t{128} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const Spread time =
      time_calls(threads, nullptr, [&] { std::memcpy(to.data(), from.data(), kBytes); });
  return 2.0 * static_cast<double>(kBytes) / time.min;
}

}  // namespace

bool is_device(const kernels::Backend& backend) { return backend.own_memory().has_value(); }

std::int64_t clock_threads(const Config& config, const kernels::Backend& backend) {
  return is_device(backend) ? kOnTheWall : config.compute.threads;
}

Result<Config> bench_config(const std::vector<std::string>& overrides) {
  Result<Config> config = parse_deck(kBenchDeck, "the benchmark's deck", overrides);
  if (config.ok()) config.value().model.initial.clear();  // the speed is that of any weights
  return config;
}

std::string shape_line(const Config& config) {
  const ModelConfig& model = config.model;
  return fmt::format(
      "{} layers of {}, {} heads, context {}, vocabulary {}, microbatches of {} sequences, {}, {} "
      "thread{}",
      model.layers, model.width, model.heads, model.context, model.vocab,
      config.train.microbatch_size, name_of(model.precision), config.compute.threads,
      config.compute.threads == 1 ? "" : "s");
}

double process_cpu_s() { return clock_s(CLOCK_PROCESS_CPUTIME_ID); }
double wall_s() { return clock_s(CLOCK_MONOTONIC); }
double bench_clock_s(std::int64_t threads) { return threads == 1 ? process_cpu_s() : wall_s(); }

Spread spread(std::vector<double> values) {
  SWARMPI_CHECK(!values.empty(), "spread() of no values");
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

Spread time_calls(std::int64_t threads, kernels::Backend* backend,
                  const std::function<void()>& call) {
  constexpr int kTimings = 7;
  constexpr double kLeastS = 0.01;
  const auto finish = [backend] {
    if (backend != nullptr) backend->finish();
  };
  call();
  finish();
  double start_s = bench_clock_s(threads);
  call();
  finish();
  const double once_s = std::max(bench_clock_s(threads) - start_s, 1e-7);
  const int calls = static_cast<int>(std::clamp(std::ceil(kLeastS / once_s), 1.0, 1e5));
  std::vector<double> times_s;
  for (int timing = 0; timing < kTimings; ++timing) {
    start_s = bench_clock_s(threads);
    for (int i = 0; i < calls; ++i) call();
    finish();
    times_s.push_back((bench_clock_s(threads) - start_s) / calls);
  }
  return spread(std::move(times_s));
}

double product_flops_per_s(kernels::Backend& backend, std::int64_t n, std::int64_t threads) {
  kernels::Matrix y;
  kernels::FactorMatrix x;
  float* master = nullptr;
  const auto memory = allocate_layout(backend, [&](Layout& layout) {
    y = layout.matrix(n, n);
    x = layout.factor(n, n);
    master = layout.vector(n * n);
  });
  fill_random(backend, y, 1, 1);
  backend.copy_factor(x, y);
  fill_random(backend, {master, n, n}, 2, 1);
  const auto weight = backend.make_weight(n, n);
  backend.refresh(*weight, master);
  const Spread time =
      time_calls(threads, &backend, [&] { backend.linear_forward(y, x, *weight, nullptr, {}); });
  return 2.0 * static_cast<double>(n * n * n) / time.min;
}

Roofline measure_roofline(kernels::Backend& backend, std::int64_t threads) {
  return {best_product_flops_per_s(backend, threads),
          is_device(backend) ? device_bytes_per_s(backend) : copy_bytes_per_s(threads)};
}

void OperationTimes::begins(const char* /*operation*/) {
  if (!waits_) start_s_ = bench_clock_s(threads_);
}

void OperationTimes::ends(const char* operation) {
  if (waits_) return;
  if (device_ != nullptr) {
    waits_ = true;  // finish() is an operation, too
    device_->finish();
    waits_ = false;
  }
  const double time_s = bench_clock_s(threads_) - start_s_;
  Use& use = uses_.try_emplace(operation, Use{operation, 0, 0}).first->second;
  use.time_s += time_s;
  ++use.calls;
}

std::vector<OperationTimes::Use> OperationTimes::uses() const {
  std::vector<Use> list;
  for (const auto& [name, use] : uses_) list.push_back(use);
  std::sort(list.begin(), list.end(),
            [](const Use& a, const Use& b) { return a.time_s > b.time_s; });
  return list;
}

std::vector<float> random_values(std::int64_t rows, std::int64_t columns, std::uint32_t name,
                                 float scale) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; c += 4) {
      const auto counter = static_cast<std::uint64_t>(r) << 32 | static_cast<std::uint64_t>(c);
      const PhiloxBlock block = philox(1, Stream::test, name, counter);
      for (std::int64_t i = 0; i < 4 && c + i < columns; ++i)
        values.push_back(scale *
                         static_cast<float>(2 * uniform(block[static_cast<std::size_t>(i)]) - 1));
    }
  }
  return values;
}

void fill_random(kernels::Backend& backend, kernels::Matrix matrix, std::uint32_t name,
                 float scale) {
  backend.copy_in(matrix, random_values(matrix.rows, matrix.columns, name, scale).data());
}

}  // namespace swarmpi
