#include "commands/bench/stage.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "commands/bench/bench.hpp"
#include "core/check.hpp"
#include "core/machine.hpp"
#include "core/version.hpp"
#include "kernels/fixed_point.hpp"
#include "model/layout.hpp"
#include "model/make_backend.hpp"
#include "model/stage_model.hpp"
#include "model/stage_shape.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/exponents.hpp"
#include "protocol/step/schedule.hpp"

namespace swarmpi {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::int32_t> tokens_below(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(vocabulary));
  }
  return tokens;
}

/// What crosses a cut, made of random numbers.
std::shared_ptr<std::byte> random_boundary(const BoundaryFormat& format, std::int64_t rows,
                                           std::int64_t columns, kernels::Backend& backend,
                                           std::uint32_t name, float scale) {
  std::shared_ptr<std::byte> boundary = backend.allocate_host(format.size_bytes());
  kernels::Matrix matrix;
  const auto memory =
      allocate_layout(backend, [&](Layout& layout) { matrix = layout.matrix(rows, columns); });
  fill_random(backend, matrix, name, scale);
  format.write(backend, boundary.get(), matrix);
  backend.finish();
  return boundary;
}

/// The jobs that the protocol would give to one peer of a stage where others wait for it:
/// boundaries come and go beside the jobs.
class StageSteps {
 public:
  StageSteps(const Config& config, StageSpec spec, kernels::Backend& backend)
      : config_(config),
        backend_(backend),
        shape_(config, spec),
        model_(config, std::move(spec), backend, 1),
        tokens_(tokens_below(shape_.rows, shape_.vocab)),
        exponents_(parameter_tensors(config), kernels::kNoExponent) {
    SWARMPI_CHECK(model_.initialize().ok(), "benchmarks read no file of weights");
    const std::int64_t width = shape_.boundary_width;
    const BoundaryFormat activations = shape_.activations_format();
    const BoundaryFormat gradients = shape_.gradients_format();
    x_ = random_boundary(activations, shape_.rows, width, backend, 1, 1.0f);
    dy_ = random_boundary(gradients, shape_.rows, width, backend, 2, 1e-2f);
    y_ = backend.allocate_host(activations.size_bytes());
    dx_ = backend.allocate_host(gradients.size_bytes());
    microbatches();  // measures the exponents, as the first step of a run does
    apply(true);
  }

  std::int64_t tokens_per_step() const { return config_.train.microbatches * shape_.rows; }
  const StageSpec& spec() const { return model_.spec(); }
  std::int64_t memory_bytes() const { return model_.memory_bytes(); }
  std::int64_t elements() const {
    return elements_of(model_.blocks(), {0, std::ssize(model_.blocks())});
  }
  void step() {
    step_ = step_.next();
    microbatches();
    apply(false);
  }

 private:
  static std::size_t parameter_tensors(const Config& config) {
    std::size_t tensors = 0;
    for (const StageSpec& spec : partition_model(config)) tensors += spec.tensors.size();
    return tensors;
  }

  void microbatches() {
    Exponents measured = exponents_;
    for (std::int32_t m = 0; m < config_.train.microbatches; ++m) {
      const WorkId work{{step_, Purpose::train, m}, StageId(spec().stage)};
      StageModel::UnderWay y;
      if (!spec().has_head) {
        backend_.fetch_ahead(dy_, shape_.gradients_format().size_bytes());
        model_.forward(work, tokens_, tokens_, x_.get(), y_.get(), &y);
      }
      if (dx_under_way_ != nullptr) dx_under_way_->wait();
      backend_.fetch_ahead(x_, shape_.activations_format().size_bytes());
      const auto answer = model_.backward(work, tokens_, tokens_, x_.get(), dy_.get(), dx_.get(),
                                          exponents_, &dx_under_way_);
      if (y != nullptr) y->wait();
      for (std::size_t i = 0; i < answer.contributions.size(); ++i) {
        const auto id = static_cast<std::size_t>(spec().tensors[i].id);
        measured[id] = std::max(measured[id], answer.contributions[i].exponent);
      }
    }
    used_ = exponents_;
    exponents_ = next_exponents(measured, exponents_);
  }

  void apply(bool skipped) {
    CommitRecord record;
    record.step = step_;
    record.skipped = skipped;
    if (!skipped) {
      model_.reduce(step_, used_, tokens_per_step());
      record.lr = 1e-5f;
      record.correction1 = bias_correction(config_.train.beta1, step_.value);
      record.correction2 = bias_correction(config_.train.beta2, step_.value);
    }
    model_.apply(record);
  }

  const Config& config_;
  kernels::Backend& backend_;
  StageShape shape_;
  StageModel model_;
  std::vector<std::int32_t> tokens_;
  std::shared_ptr<std::byte> x_, y_, dy_, dx_;
  StageModel::UnderWay dx_under_way_;
  Step step_;
  Exponents exponents_, used_;
};

StageSpec stage_in_the_middle(const Config& config) {
  std::vector<StageSpec> specs = partition_model(config);
  for (StageSpec& spec : specs) {
    if (!spec.has_embedding && !spec.has_head) return std::move(spec);
  }
  return std::move(specs.front());
}

/// What a microbatch's integers cost beside gradients in fp32: adding them, all tensors of the
/// stage once.
double sums_s(kernels::Backend& backend, std::int64_t elements, int bits) {
  constexpr std::int64_t kColumns = 4096;
  const std::int64_t rows = std::max<std::int64_t>(1, elements / kColumns);
  kernels::Matrix gradient;
  const auto memory =
      allocate_layout(backend, [&](Layout& layout) { gradient = layout.matrix(rows, kColumns); });
  const auto sums =
      backend.allocate(static_cast<std::size_t>(rows * kColumns) * sizeof(std::int64_t));
  fill_random(backend, gradient, 5, 1);
  kernels::Contribution did;
  const Spread time = time_calls(kOnTheWall, &backend, [&] {
    backend.add_gradient(did, sums->as<std::int64_t>(), kernels::Write::add, gradient, 0, bits);
  });
  return time.median;
}

struct StageFigures {
  Spread step_s;
  std::vector<OperationTimes::Use> uses;  // of one step, each waited for
  double sums_s = 0;                      // of one step
  double flops_per_step = 0;
  double best_flops_per_s = 0;
};

StageFigures measure_stage(const Config& config, kernels::Backend& backend, StageSteps& steps) {
  steps.step();
  steps.step();
  std::vector<double> times_s;
  for (std::int64_t i = 0; i < config.train.steps; ++i) {
    const double start_s = wall_s();
    steps.step();
    times_s.push_back(wall_s() - start_s);
  }
  StageFigures figures;
  figures.step_s = spread(times_s);
  OperationTimes times(kOnTheWall, &backend);
  backend.set_listener(&times);
  steps.step();
  backend.set_listener(nullptr);
  figures.uses = times.uses();
  const int bits = kernels::fixed_point_bits(config.train.microbatches);
  figures.sums_s =
      static_cast<double>(config.train.microbatches) * sums_s(backend, steps.elements(), bits);
  figures.flops_per_step =
      steps.spec().flops_per_token * static_cast<double>(steps.tokens_per_step());
  figures.best_flops_per_s = measure_roofline(backend, kOnTheWall).flops_per_s;
  return figures;
}

void print_stage_text(const Config& config, const StageSteps& steps, kernels::Backend& backend,
                      const StageFigures& f, std::ostream& out) {
  const double flops_per_s = f.flops_per_step / f.step_s.median;
  out << "stage: layers " << steps.spec().first_layer << " to " << steps.spec().end_layer - 1
      << " of " << shape_line(config) << ", " << backend.name() << " kernels\n"
      << (backend.identity().empty() ? this_machine().cpu : backend.identity()) << "\n"
      << fmt::format("{} parameters, {} tokens a step\n", steps.elements(), steps.tokens_per_step())
      << fmt::format("{:.0f} tokens/s; a step {:.4f} s (min {:.4f}, max {:.4f} of {})\n",
                     static_cast<double>(steps.tokens_per_step()) / f.step_s.median,
                     f.step_s.median, f.step_s.min, f.step_s.max, config.train.steps)
      << fmt::format(
             "{:.2f} TFLOP/s by the model's FLOPs, {:.0f}% of the best product here "
             "({:.2f})\n",
             1e-12 * flops_per_s, 100 * flops_per_s / f.best_flops_per_s,
             1e-12 * f.best_flops_per_s)
      << fmt::format("exact sums: {:.5f} s a step, {:.1f}%\n\n", f.sums_s,
                     100 * f.sums_s / f.step_s.median)
      << fmt::format("{:28} {:>8} {:>12} {:>8}   (each waited for)\n", "operation", "calls",
                     "s a step", "share");
  double sum_s = 0;
  for (const OperationTimes::Use& use : f.uses) sum_s += use.time_s;
  for (const OperationTimes::Use& use : f.uses) {
    out << fmt::format("{:28} {:8} {:>12.6f} {:>7.1f}%\n", use.name, use.calls, use.time_s,
                       100 * use.time_s / sum_s);
  }
}

void print_stage_json(const Config& config, const StageSteps& steps, kernels::Backend& backend,
                      const StageFigures& f, std::ostream& out) {
  std::vector<Json> operations;
  for (const OperationTimes::Use& use : f.uses) {
    operations.push_back(Json{{"name", use.name}, {"calls", use.calls}, {"time_s", use.time_s}});
  }
  out << Json{{"bench", "stage"},
              {"version", version_line()},
              {"cpu", this_machine().cpu},
              {"device", backend.identity()},
              {"shape", shape_line(config)},
              {"kernels", backend.name()},
              {"layers", steps.spec().end_layer - steps.spec().first_layer},
              {"parameters", steps.elements()},
              {"tokens_per_step", steps.tokens_per_step()},
              {"step_s_median", f.step_s.median},
              {"step_s_min", f.step_s.min},
              {"step_s_max", f.step_s.max},
              {"flops_per_s", f.flops_per_step / f.step_s.median},
              {"best_product_flops_per_s", f.best_flops_per_s},
              {"exact_sums_s_per_step", f.sums_s},
              {"operations", operations}}
      << "\n";
}

}  // namespace

Status run_bench_stage(const BenchOptions& options, std::ostream& out) {
  const Result<Config> checked = bench_config(options.overrides);
  if (!checked.ok()) return checked.status();
  const Config& config = checked.value();
  const auto made = make_backend(config);
  if (!made.ok()) return made.status();
  kernels::Backend& backend = *made.value();
  backend.prepare_thread();
  StageSteps steps(config, stage_in_the_middle(config), backend);
  const StageFigures figures = measure_stage(config, backend, steps);
  if (options.json) {
    print_stage_json(config, steps, backend, figures, out);
  } else {
    print_stage_text(config, steps, backend, figures, out);
  }
  return {};
}

}  // namespace swarmpi
