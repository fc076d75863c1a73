#include "commands/bench/model.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "commands/bench/bench.hpp"
#include "commands/bench/model_bound.hpp"
#include "core/check.hpp"
#include "core/machine.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "model/cost.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/exponents.hpp"
#include "protocol/step/schedule.hpp"

namespace swarmpi {
namespace {

using Json = nlohmann::ordered_json;

// Runs steps one after another on random tokens: the jobs that the protocol would give to one peer
// that serves all stages.
class Stepper {
 public:
  Stepper(const Config& config, kernels::Backend& backend)
      : config_(config),
        model_(config, partition_model(config.model, 1).front(), backend, 0),
        exponents_(model_.spec().tensors.size(), kernels::kNoExponent),
        tokens_(static_cast<std::size_t>(config.train.microbatch_size * config.model.context)),
        targets_(tokens_.size()) {
    SWARMPI_CHECK(model_.initialize().ok(), "benchmarks read no file of weights");
  }

  std::int64_t tokens_per_step() const {
    return config_.train.microbatches * static_cast<std::int64_t>(tokens_.size());
  }
  double loss() const { return loss_; }

  // Step 0 measures the exponents, as in a run.
  void measure_exponents() {
    microbatches(Step(0));
    CommitRecord record;
    record.skipped = true;
    model_.apply(record);
  }

  void step() {
    step_ = step_.next();
    const Exponents used = exponents_;
    microbatches(step_);
    double squares = 0;
    for (const double square : model_.reduce(step_, used, tokens_per_step())) squares += square;

    CommitRecord record;
    record.step = step_;
    record.tokens = tokens_per_step();
    record.grad_norm = std::sqrt(squares);
    const double clip = config_.train.clip;
    if (clip > 0 && record.grad_norm > clip)
      record.clip = static_cast<float>(clip / record.grad_norm);
    record.lr = learning_rate(config_.train, step_.value);
    record.correction1 = bias_correction(config_.train.beta1, step_.value);
    record.correction2 = bias_correction(config_.train.beta2, step_.value);
    record.applied_updates = step_.value;
    model_.apply(record);
  }

 private:
  void microbatches(Step step) {
    Exponents measured(exponents_.size(), kernels::kNoExponent);
    loss_ = 0;
    for (std::int32_t m = 0; m < config_.train.microbatches; ++m) {
      draw_tokens(step, m);
      const WorkId work{{step, Purpose::train, m}, StageId(0)};
      const auto answer = model_.backward(work, tokens_, targets_, {}, {}, {}, exponents_);
      loss_ += answer.loss_nats;
      for (std::size_t i = 0; i < measured.size(); ++i)
        measured[i] = std::max(measured[i], answer.contributions[i].exponent);
    }
    loss_ /= static_cast<double>(tokens_per_step());
    exponents_ = next_exponents(measured, exponents_);
  }

  void draw_tokens(Step step, std::int32_t index) {
    const auto draw = [&](std::uint64_t counter) {
      const std::uint64_t bits =
          random_bits(config_.train.seed, Stream::test,
                      static_cast<std::uint32_t>(step.value * 1000 + index), counter);
      return static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(config_.model.vocab));
    };
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = draw(2 * i);
      targets_[i] = draw(2 * i + 1);
    }
  }

  const Config& config_;
  StageModel model_;
  Step step_;
  Exponents exponents_;
  std::vector<std::int32_t> tokens_, targets_;  // (B*T)
  double loss_ = 0;
};

struct Figures {
  Spread tokens_per_s, cpu_s, wall_s;
  bool by_cpu = true;  // which of the two the rates are by
  double flops_per_s = 0, share_of_peak = 0;
  ModelBound bound;
  double bound_tokens_per_s = 0, share_of_bound = 0, best_share_of_bound = 0;
  std::int64_t memory_bytes = 0;
  std::vector<OperationTimes::Use> uses;  // of one step
  double other_s = 0;                     // of one step, outside the backend
  double exactness_s = 0;                 // of one step: what exact sums cost more than fp32 ones
  Roofline roof;
};

struct TimedSteps {
  std::vector<double> rates, cpu_s, wall_s;
  double total_s = 0;
};

TimedSteps time_steps(const Config& config, Stepper& stepper, bool by_cpu) {
  TimedSteps timed;
  for (std::int64_t i = 0; i < config.train.steps; ++i) {
    const double cpu_start_s = process_cpu_s(), wall_start_s = wall_s();
    stepper.step();
    timed.cpu_s.push_back(process_cpu_s() - cpu_start_s);
    timed.wall_s.push_back(wall_s() - wall_start_s);
    const double step_s = by_cpu ? timed.cpu_s.back() : timed.wall_s.back();
    timed.total_s += step_s;
    timed.rates.push_back(static_cast<double>(stepper.tokens_per_step()) / step_s);
  }
  return timed;
}

Figures measure(const Config& config, kernels::Backend& backend, Stepper& stepper) {
  const std::int64_t threads = clock_threads(config, backend);
  const bool waits = is_device(backend);
  stepper.measure_exponents();
  stepper.step();  // libraries compile and choose their kernels
  OperationTimes times(threads, waits ? &backend : nullptr);
  if (!waits) backend.set_listener(&times);
  const TimedSteps timed = time_steps(config, stepper, threads == 1);
  double listened_s = timed.total_s;
  if (waits) {  // who waits for each operation slows the steps down
    backend.set_listener(&times);
    listened_s = time_steps(config, stepper, false).total_s;
  }
  backend.set_listener(nullptr);
  Figures figures;
  figures.memory_bytes = peak_memory_bytes();
  figures.tokens_per_s = spread(timed.rates);
  figures.cpu_s = spread(timed.cpu_s);
  figures.wall_s = spread(timed.wall_s);
  figures.by_cpu = threads == 1;
  figures.flops_per_s = figures.tokens_per_s.median * model_flops_per_token(config.model);
  figures.uses = times.uses();
  const auto steps = static_cast<double>(config.train.steps);
  figures.other_s = listened_s / steps;
  for (OperationTimes::Use& use : figures.uses) {
    use.time_s /= steps;
    use.calls /= config.train.steps;
    figures.other_s -= use.time_s;
  }
  figures.roof = measure_roofline(backend, threads);
  figures.share_of_peak = figures.flops_per_s / figures.roof.flops_per_s;
  figures.bound = measure_bound(config, backend);
  figures.bound_tokens_per_s =
      static_cast<double>(stepper.tokens_per_step()) / figures.bound.total_s();
  figures.share_of_bound = figures.tokens_per_s.median / figures.bound_tokens_per_s;
  figures.best_share_of_bound = figures.tokens_per_s.max / figures.bound_tokens_per_s;
  figures.exactness_s = measure_exactness_s(config, backend);
  return figures;
}

void print_text(const Config& config, const Figures& f, std::ostream& out) {
  const Machine machine = this_machine();
  const double step_s = f.by_cpu ? f.cpu_s.median : f.wall_s.median;
  out << "model: " << shape_line(config) << ", " << name_of(config.compute.kernels) << " kernels\n"
      << machine.cpu << ", " << config.train.microbatches
      << (config.train.microbatches == 1 ? " microbatch" : " microbatches") << " a step\n"
      << fmt::format("{:.0f} tokens/s (min {:.0f}, max {:.0f} of {} steps, by {})\n",
                     f.tokens_per_s.median, f.tokens_per_s.min, f.tokens_per_s.max,
                     config.train.steps, f.by_cpu ? "CPU time" : "time on the wall")
      << fmt::format(
             "{:.1f} GFLOP/s by the model's FLOPs, {:.0f}% of this machine's best product "
             "({:.1f})\n",
             1e-9 * f.flops_per_s, 100 * f.share_of_peak, 1e-9 * f.roof.flops_per_s)
      << fmt::format("a step: {:.4f} s CPU, {:.4f} s on the wall (medians); peak memory {}\n",
                     f.cpu_s.median, f.wall_s.median,
                     readable_bytes(static_cast<double>(f.memory_bytes)))
      << fmt::format(
             "bound of this machine: {:.0f} tokens/s; {:.0f}% of it ({:.0f}% at best). It takes\n",
             f.bound_tokens_per_s, 100 * f.share_of_bound, 100 * f.best_share_of_bound)
      << fmt::format(
             "  products {:.4f} s, attention {:.4f}, GELU {:.4f}, other passes {:.4f}, AdamW "
             "{:.4f}\n",
             f.bound.products_s, f.bound.attention_s, f.bound.gelu_s, f.bound.pointwise_s,
             f.bound.update_s)
      << fmt::format("exact sums: {:.4f} s a step more than in fp32, {:.1f}%\n\n", f.exactness_s,
                     100 * f.exactness_s / step_s)
      << fmt::format("{:28} {:>8} {:>12} {:>8}\n", "operation", "calls", "s a step", "share");
  for (const OperationTimes::Use& use : f.uses)
    out << fmt::format("{:28} {:8} {:>12.6f} {:>7.1f}%\n", use.name, use.calls, use.time_s,
                       100 * use.time_s / step_s);
  out << fmt::format("{:28} {:>8} {:>12.6f} {:>7.1f}%\n", "all else", "", f.other_s,
                     100 * f.other_s / step_s);
}

void print_model_json(const Config& config, const Figures& f, double loss, std::ostream& out) {
  const Machine machine = this_machine();
  std::vector<Json> operations;
  for (const OperationTimes::Use& use : f.uses)
    operations.push_back(Json{{"name", use.name}, {"calls", use.calls}, {"time_s", use.time_s}});
  out << Json{{"bench", "model"},
              {"version", version_line()},
              {"cpu", machine.cpu},
              {"cpu_flags", machine.flags},
              {"shape", shape_line(config)},
              {"kernels", name_of(config.compute.kernels)},
              {"precision", name_of(config.model.precision)},
              {"threads", config.compute.threads},
              {"steps", config.train.steps},
              {"clock", f.by_cpu ? "cpu" : "wall"},
              {"tokens_per_s_median", f.tokens_per_s.median},
              {"tokens_per_s_min", f.tokens_per_s.min},
              {"tokens_per_s_max", f.tokens_per_s.max},
              {"flops_per_s", f.flops_per_s},
              {"share_of_peak", f.share_of_peak},
              {"peak_flops_per_s", f.roof.flops_per_s},
              {"cpu_s_per_step_median", f.cpu_s.median},
              {"wall_s_per_step_median", f.wall_s.median},
              {"peak_memory_bytes", f.memory_bytes},
              {"bound_tokens_per_s", f.bound_tokens_per_s},
              {"share_of_bound", f.share_of_bound},
              {"best_share_of_bound", f.best_share_of_bound},
              {"bound_products_s", f.bound.products_s},
              {"bound_attention_s", f.bound.attention_s},
              {"bound_gelu_s", f.bound.gelu_s},
              {"bound_pointwise_s", f.bound.pointwise_s},
              {"bound_update_s", f.bound.update_s},
              {"exact_sums_s_per_step", f.exactness_s},
              {"other_s_per_step", f.other_s},
              {"loss", loss},
              {"operations", operations}}
      << "\n";
}

}  // namespace

Status run_bench_model(const BenchOptions& options, std::ostream& out) {
  const Result<Config> checked = bench_config(options.overrides);
  if (!checked.ok()) return checked.status();
  const Config& config = checked.value();

  const auto made = make_backend(config);
  if (!made.ok()) return made.status();
  kernels::Backend& backend = *made.value();
  backend.prepare_thread();
  Stepper stepper(config, backend);
  const Figures figures = measure(config, backend, stepper);
  if (options.json)
    print_model_json(config, figures, stepper.loss(), out);
  else
    print_text(config, figures, out);
  if (std::isfinite(stepper.loss())) return {};
  return Status::failed(
      "bench model: the loss is not finite, so the figures mean nothing: check --set");
}

}  // namespace swarmpi
