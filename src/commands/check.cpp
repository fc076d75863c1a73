#include "commands/check.hpp"

#include <algorithm>

#include "commands/bench/bench.hpp"
#include "commands/check_peers.hpp"
#include "config/deck.hpp"
#include "core/hash.hpp"
#include "core/machine.hpp"
#include "core/text.hpp"
#include "data/dataset.hpp"
#include "model/cost.hpp"
#include "model/make_backend.hpp"
#include "model/tensors.hpp"

namespace swarmpi {
namespace {

double as_double(std::int64_t value) { return static_cast<double>(value); }
std::string count(double value) { return readable_count(value); }
std::string bytes(std::int64_t value) { return readable_bytes(as_double(value)); }

void describe_model(const Config& config, std::vector<std::string>& lines) {
  const ModelConfig& model = config.model;
  const double tokens =
      as_double(config.train.microbatches * config.train.microbatch_size * model.context);
  const double flops = model_flops_per_token(model);
  lines.push_back("parameters         " + count(as_double(parameter_count(model))));
  lines.push_back("FLOPs per token    " + count(flops) + " (forward and backward)");
  lines.push_back("tokens per step    " + count(tokens) +
                  format(" (%lld microbatches of %lld sequences of %lld)",
                         static_cast<long long>(config.train.microbatches),
                         static_cast<long long>(config.train.microbatch_size),
                         static_cast<long long>(model.context)));
  const double all = tokens * as_double(config.train.steps);
  lines.push_back("tokens in all      " + count(all) +
                  format(" in %lld steps, ", static_cast<long long>(config.train.steps)) +
                  count(all * flops) + " FLOPs");
}

void describe_data(const Config& config, const Dataset& data, std::vector<std::string>& lines) {
  const double used = as_double(config.train.steps) * as_double(config.train.microbatches) *
                      as_double(config.train.microbatch_size);
  lines.push_back("data               " + count(as_double(data.tokens())) + " tokens: " +
                  count(as_double(data.train_sequences())) + " sequences to train on, " +
                  count(as_double(data.validation_sequences())) + " held out");
  lines.push_back(format("passes over data   %.3g", used / as_double(data.train_sequences())));
}

void describe_stages(const Config& config, std::vector<std::string>& lines) {
  const std::vector<StageSpec> stages = partition_model(config.model, config.swarm.stages);
  const auto backend = make_backend(config);
  double flops = 0;
  for (const StageSpec& stage : stages) flops += stage.flops_per_token;
  for (const StageSpec& stage : stages) {
    std::int64_t parameters = 0;
    for (const TensorInfo& tensor : stage.tensors) parameters += tensor.count();
    lines.push_back(format(
        "stage %-3d          %slayers %lld to %lld%s: %s parameters, %.1f%% of FLOPs", stage.stage,
        stage.has_embedding ? "embedding, " : "", static_cast<long long>(stage.first_layer),
        static_cast<long long>(stage.end_layer - 1), stage.has_head ? ", head" : "",
        count(as_double(parameters)).c_str(), 100 * stage.flops_per_token / flops));
    if (!backend.ok()) continue;
    const StageMemory memory = stage_memory(config, stage, *backend.value());
    lines.push_back("  memory           " + bytes(memory.fixed_bytes()) + ": state " +
                    bytes(memory.state_bytes) + ", sums " + bytes(memory.sums_bytes) +
                    ", scratch " + bytes(memory.scratch_bytes) + "; " +
                    bytes(memory.activation_slot_bytes) + " for each microbatch kept; " +
                    bytes(memory.gradient_bytes) + " where the stage has replicas");
  }
  if (!backend.ok()) {
    lines.push_back("memory             not known here: " + backend.status().message());
    return;
  }
  describe_peers(config, stages, *backend.value(), lines);
}

/// How fast this machine multiplies in either precision, so many threads at a time: measured.
std::string describe_products(Config config) {
  constexpr std::int64_t kSize = 512;
  std::string line;
  double fp32 = 0, bf16 = 0;
  for (const auto& [precision, flops_per_s] :
       {std::pair<const char*, double*>{"fp32", &fp32}, {"bf16", &bf16}}) {
    config.model.precision = precision;
    const auto backend = make_backend(config);
    if (!backend.ok()) return "not known here: " + backend.status().message();
    backend.value()->prepare_thread();
    *flops_per_s = product_flops_per_s(*backend.value(), kSize, config.compute.threads);
  }
  const char* const advice = bf16 > 1.2 * fp32   ? "bf16 does most"
                             : fp32 > 1.2 * bf16 ? "fp32 does most"
                                                 : "bf16 is no faster";
  return format("fp32 %.0f, bf16 %.0f GFLOP/s a peer of %lld thread%s (measured just now): %s",
                1e-9 * fp32, 1e-9 * bf16, static_cast<long long>(config.compute.threads),
                config.compute.threads == 1 ? "" : "s", advice);
}

void describe_machine(const Config& config, std::vector<std::string>& lines) {
  const Machine machine = this_machine();
  lines.push_back("machine            " + machine.cpu + ", " + std::to_string(machine.cores) +
                  " cores, " + bytes(machine.memory_bytes));
  const bool warn = config.model.precision == "bf16" && !machine.bf16_products();
  lines.push_back("precision          " + config.model.precision + (warn ? " (WARNING)" : "") +
                  "; " + bf16_advice(machine));
  if (config.compute.kernels == "native") {
    lines.push_back("products           " + describe_products(config));
  }
}

}  // namespace

std::vector<std::string> check_report(const Config& config, const Dataset& data) {
  std::vector<std::string> lines;
  describe_model(config, lines);
  describe_data(config, data, lines);
  describe_stages(config, lines);
  describe_machine(config, lines);
  return lines;
}

Status run_check(const CheckOptions& options, std::ostream& out) {
  if (options.reference) {
    out << deck_reference();
    return {};
  }
  const Result<Config> loaded = load_deck(options.deck, options.overrides);
  if (!loaded.ok()) return loaded.status();
  Config config = loaded.value();
  const Result<Dataset> data = Dataset::open(config);
  if (!data.ok()) return with_place(config, data.status());
  config.data.hash = hex(data.value().hash());

  out << resolved_deck(config) << "\n";
  for (const std::string& line : check_report(config, data.value())) out << "# " << line << "\n";
  return {};
}

}  // namespace swarmpi
