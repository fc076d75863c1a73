#include "config/rules.hpp"

#include <algorithm>

#include "config/toml_text.hpp"

namespace swarmpi {
namespace {

// Sequences are numbered over the whole run in 64 bits.
constexpr double kMostSequences = 0x1p62;

using Broken = std::optional<BrokenRule>;

std::string number(std::int64_t value) { return std::to_string(value); }

Broken check_model(const ModelConfig& model) {
  if (model.width % model.heads != 0) {
    return BrokenRule{{"model.heads", "model.width"},
                      "model.heads = " + number(model.heads) +
                          " must divide model.width = " + number(model.width)};
  }
  if (model.shared_groups > 0 && model.layers % model.shared_groups != 0) {
    return BrokenRule{{"model.shared_groups", "model.layers"},
                      "model.shared_groups = " + number(model.shared_groups) +
                          " must divide model.layers = " + number(model.layers)};
  }
  return std::nullopt;
}

Broken check_stages(const Config& config) {
  const std::int64_t stages = config.swarm.stages;
  if (stages > config.model.layers) {
    return BrokenRule{{"swarm.stages", "model.layers"},
                      "swarm.stages = " + number(stages) +
                          " must not exceed model.layers = " + number(config.model.layers)};
  }
  const std::int64_t groups = config.model.shared_groups;
  if (groups > 0 && stages > groups) {
    return BrokenRule{{"swarm.stages", "model.shared_groups"},
                      "swarm.stages = " + number(stages) +
                          " must not exceed model.shared_groups = " + number(groups) +
                          ", as layers that share weights stay in one stage"};
  }
  return std::nullopt;
}

Broken check_data(const Config& config) {
  const std::int64_t vocab = config.model.vocab;
  if (config.data.format == "tokens_u16" && vocab > 65536) {
    return BrokenRule{{"model.vocab", "data.format"},
                      "model.vocab = " + number(vocab) +
                          " must not exceed 65536, all that data.format = \"tokens_u16\" can hold"};
  }
  const std::string& hash = config.data.hash;
  const bool digits = hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hash.empty() && (hash.size() != 16 || !digits)) {
    return BrokenRule{{"data.hash"},
                      "data.hash must be 16 hexadecimal digits in lower case, or empty, not " +
                          toml_string(hash)};
  }
  return std::nullopt;
}

Broken check_train(const TrainConfig& train) {
  if (train.warmup_steps > train.steps) {
    return BrokenRule{{"train.warmup_steps", "train.steps"},
                      "train.warmup_steps = " + number(train.warmup_steps) +
                          " must not exceed train.steps = " + number(train.steps)};
  }
  if (train.min_lr > train.lr) {
    return BrokenRule{{"train.min_lr", "train.lr"},
                      "train.min_lr = " + toml_number(train.min_lr) +
                          " must not exceed train.lr = " + toml_number(train.lr)};
  }
  const double sequences = static_cast<double>(train.steps) *
                           static_cast<double>(train.microbatches) *
                           static_cast<double>(train.microbatch_size);
  if (sequences > kMostSequences) {
    return BrokenRule{{"train.steps", "train.microbatches", "train.microbatch_size"},
                      "train.steps * train.microbatches * train.microbatch_size must not exceed "
                      "2^62 sequences"};
  }
  return std::nullopt;
}

Broken check_rest(const Config& config) {
  if (config.swarm.suspect_after_s <= config.swarm.heartbeat_s) {
    return BrokenRule{
        {"swarm.suspect_after_s", "swarm.heartbeat_s"},
        "swarm.suspect_after_s = " + toml_number(config.swarm.suspect_after_s) +
            " must be larger than swarm.heartbeat_s = " + toml_number(config.swarm.heartbeat_s)};
  }
  const auto& paths = config.data.paths;
  if (std::find(paths.begin(), paths.end(), "") != paths.end()) {
    return BrokenRule{{"data.paths"}, "data.paths must not hold an empty name"};
  }
  if (config.output.run.empty()) {
    return BrokenRule{{"output.run"}, "output.run must not be empty"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<BrokenRule> broken_rule(const Config& config) {
  if (auto broken = check_model(config.model)) return broken;
  if (auto broken = check_stages(config)) return broken;
  if (auto broken = check_data(config)) return broken;
  if (auto broken = check_train(config.train)) return broken;
  return check_rest(config);
}

}  // namespace swarmpi
