#include "config/rules.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config/machine_rules.hpp"
#include "config/toml_text.hpp"
#include "core/text.hpp"

namespace swarmpi {
namespace {

// Sizes are estimated as doubles here; all other code counts them in signed 64 bits.
constexpr double kLargestCount = 0x1p62;
// Memory of a parameter and of an activation, rounded up; a row is padded by fewer columns than
// this.
constexpr double kBytesPerParameter = 64;
constexpr double kBytesPerActivation = 4;
constexpr double kPaddingColumns = 32;

// Smallest train.clip: the factor clip / norm is applied in fp32.
constexpr double kSmallestClip = 1e-30;

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

/// Stages begin at growing layers, groups of layers that share weights stay together.
Broken check_cuts(const Config& config) {
  const std::vector<std::int64_t>& cuts = config.swarm.cuts;
  if (cuts.empty()) return std::nullopt;
  const ModelConfig& model = config.model;
  const auto refuse = [](std::vector<std::string> keys, const std::string& why) {
    keys.insert(keys.begin(), "swarm.cuts");
    return BrokenRule{std::move(keys), "swarm.cuts: " + why};
  };
  if (static_cast<std::int64_t>(cuts.size()) + 1 != config.swarm.stages) {
    return refuse({"swarm.stages"}, counted(static_cast<std::int64_t>(cuts.size()), "cut") +
                                        " for swarm.stages = " + number(config.swarm.stages) +
                                        ", there is one between any two stages");
  }
  const std::int64_t layers_per_set = model.layers / model.layer_sets();
  std::int64_t before = 0;
  for (const std::int64_t cut : cuts) {
    if (cut <= before) {
      return refuse({}, number(cut) + " after " + number(before) +
                            ": each stage begins at a later layer than the one before");
    }
    if (cut >= model.layers) {
      return refuse({"model.layers"}, "there is no layer " + number(cut) + " in model.layers = " +
                                          number(model.layers) + ", and the first is layer 0");
    }
    if (cut % layers_per_set != 0) {
      return refuse({"model.shared_groups"},
                    "layer " + number(cut) + " is within a group of " + number(layers_per_set) +
                        " layers that share weights (model.shared_groups)");
    }
    before = cut;
  }
  return std::nullopt;
}

Broken check_boundary(const Config& config) {
  const SwarmConfig& swarm = config.swarm;
  if (swarm.boundary == Boundary::plain) return std::nullopt;
  const std::int64_t width = config.model.width, factor = swarm.boundary_factor;
  if (width % factor == 0 && width / factor > 1) return std::nullopt;
  return BrokenRule{{"swarm.boundary_factor", "model.width", "swarm.boundary"},
                    "swarm.boundary_factor = " + number(factor) + " must divide model.width = " +
                        number(width) + " into more than one column for swarm.boundary = " +
                        toml_string(name_of(swarm.boundary))};
}

Broken check_fp16_scale(const SwarmConfig& swarm) {
  int exponent = 0;
  if (std::frexp(swarm.fp16_scale, &exponent) == 0.5) return std::nullopt;
  const double below = std::ldexp(0.5, exponent);
  return BrokenRule{{"swarm.fp16_scale"},
                    "swarm.fp16_scale = " + toml_number(swarm.fp16_scale) +
                        " must be a power of two, for example " + toml_number(below) +
                        ", so that it rounds nothing"};
}

Broken check_pins(const SwarmConfig& swarm) {
  for (const std::int64_t pin : swarm.pins) {
    if (pin < swarm.stages) continue;
    return BrokenRule{{"swarm.pins", "swarm.stages"},
                      "swarm.pins: " + number(pin) + " is no stage: swarm.stages = " +
                          number(swarm.stages) + ", and the first is stage 0"};
  }
  return std::nullopt;
}

/// What only SWARM does.
Broken check_pipelines(const Config& config) {
  const SwarmConfig& swarm = config.swarm;
  if (!swarm.has_pipelines()) return std::nullopt;
  const auto needs_swarm = [](const std::string& key, const std::string& value) {
    const std::string what = key + (value.empty() ? "" : " = " + value);
    return BrokenRule{{key, "swarm.method"}, what + " needs swarm.method = \"swarm\""};
  };
  const std::string method = "swarm.method = " + toml_string(name_of(swarm.method));
  const bool of_one_stage = swarm.method == Method::data_parallel || swarm.has_owners();
  if (of_one_stage && swarm.stages != 1) {
    return BrokenRule{{"swarm.method", "swarm.stages"},
                      method + " needs swarm.stages = 1, not " + number(swarm.stages)};
  }
  if (swarm.has_owners() && config.train.optimizer == Optimizer::lamb) {
    return BrokenRule{{"swarm.method", "train.optimizer"},
                      method +
                          " deals the elements of a tensor to several replicas, and "
                          "train.optimizer = \"lamb\" needs norms of whole tensors: take "
                          "\"adamw\", or swarm.method = \"data_parallel\""};
  }
  if (swarm.method == Method::gpipe && config.compute.recompute == Recompute::never) {
    return BrokenRule{{"swarm.method", "compute.recompute"},
                      method +
                          " computes every forward pass again: compute.recompute = \"never\" "
                          "does not go with it"};
  }
  if (swarm.rebalance != Rebalance::none) {
    return needs_swarm("swarm.rebalance", toml_string(name_of(swarm.rebalance)));
  }
  if (swarm.wiring != Wiring::iwrr && swarm.wiring != Wiring::fixed) {
    return needs_swarm("swarm.wiring", toml_string(name_of(swarm.wiring)));
  }
  if (!swarm.pins.empty()) return needs_swarm("swarm.pins", "");
  if (swarm.window > 0) return needs_swarm("swarm.window", number(swarm.window));
  if (swarm.shadows > 0) return needs_swarm("swarm.shadows", number(swarm.shadows));
  if (swarm.spawn) return needs_swarm("swarm.spawn", "");
  if (config.train.updates == Updates::delayed) return needs_swarm("train.updates", "\"delayed\"");
  return std::nullopt;
}

Broken check_shadows(const SwarmConfig& swarm) {
  if (swarm.shadows == 0) return std::nullopt;
  const std::string shadows = "swarm.shadows = " + number(swarm.shadows);
  if (swarm.shadows > swarm.spares) {
    return BrokenRule{{"swarm.shadows", "swarm.spares"},
                      shadows + " must not exceed swarm.spares = " + number(swarm.spares) +
                          ": shadows are spares that learn a stage before they are needed"};
  }
  if (swarm.recovery == Recovery::off) {
    return BrokenRule{{"swarm.shadows", "swarm.recovery"},
                      shadows + " needs swarm.recovery = \"lineage\" or \"redo\""};
  }
  return std::nullopt;
}

Broken check_rebalance(const SwarmConfig& swarm) {
  if (swarm.rebalance == Rebalance::none || swarm.recovery != Recovery::off) return std::nullopt;
  return BrokenRule{{"swarm.rebalance", "swarm.recovery"},
                    "swarm.rebalance = " + toml_string(name_of(swarm.rebalance)) +
                        " needs swarm.recovery = \"lineage\" or \"redo\""};
}

/// What the attention kernels of GPUs have room for.
constexpr std::int64_t kWidestHeadOnGpu = 256;

Broken check_heads_on_gpu(const Config& config) {
  const auto on_gpu = [](const PeersConfig& peers) { return peers.kernels == PeerKernels::cuda; };
  const bool any = config.compute.kernels == Kernels::cuda ||
                   std::any_of(config.peer_classes.begin(), config.peer_classes.end(), on_gpu);
  const std::int64_t width = config.model.width / config.model.heads;
  if (!any || width <= kWidestHeadOnGpu) return std::nullopt;
  return BrokenRule{{"model.heads", "model.width"},
                    "heads of model.width / model.heads = " + number(width) +
                        " are too wide for kernels = \"cuda\": at most " +
                        number(kWidestHeadOnGpu)};
}

Broken check_hash(const std::string& key, const std::string& hash) {
  const bool digits = hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hash.empty() || (hash.size() == 16 && digits)) return std::nullopt;
  return BrokenRule{
      {key},
      key + " must be 16 hexadecimal digits in lower case, or empty, not " + toml_string(hash)};
}

Broken check_data(const Config& config) {
  const std::int64_t vocab = config.model.vocab;
  if (config.data.format == DataFormat::tokens_u16 && vocab > 65536) {
    return BrokenRule{{"model.vocab", "data.format"},
                      "model.vocab = " + number(vocab) +
                          " must not exceed 65536, all that data.format = \"tokens_u16\" can hold"};
  }
  const Broken initial = check_hash("model.initial_hash", config.model.initial_hash);
  return initial ? initial : check_hash("data.hash", config.data.hash);
}

Broken check_train(const TrainConfig& train) {
  if (train.warmup_steps > train.scheduled_steps()) {
    const std::string limit = train.schedule_steps > 0 ? "train.schedule_steps" : "train.steps";
    return BrokenRule{{"train.warmup_steps", limit},
                      "train.warmup_steps = " + number(train.warmup_steps) + " must not exceed " +
                          limit + " = " + number(train.scheduled_steps())};
  }
  if (train.min_lr > train.lr) {
    return BrokenRule{{"train.min_lr", "train.lr"},
                      "train.min_lr = " + toml_number(train.min_lr) +
                          " must not exceed train.lr = " + toml_number(train.lr)};
  }
  if (train.clip > 0 && train.clip < kSmallestClip) {
    return BrokenRule{{"train.clip"},
                      "train.clip = " + toml_number(train.clip) +
                          " must be 0 (no clipping) or at least " + toml_number(kSmallestClip) +
                          ", as less would round gradients to 0 in fp32"};
  }
  return std::nullopt;
}

Broken check_model_size(const ModelConfig& model) {
  const double width = as_double(model.width) + kPaddingColumns;
  const double hidden = as_double(model.hidden()) + kPaddingColumns;
  const double of_layer = 4 * width * width + 2 * width * hidden + 16 * (width + hidden);
  const double parameters = as_double(model.layer_sets()) * of_layer +
                            (2 * as_double(model.vocab) + as_double(model.context)) * width;
  if (parameters * kBytesPerParameter < kLargestCount) return std::nullopt;
  return BrokenRule{
      {"model.width", "model.layers", "model.ffn", "model.vocab", "model.context"},
      "model.layers = " + number(model.layers) + " of model.width = " + number(model.width) +
          fmt::format(" are a model of about {:.2g} parameters, far beyond any machine",
                      parameters)};
}

/// Of all stages together: one peer may serve them all.
Broken check_activations_size(const Config& config) {
  const ModelConfig& model = config.model;
  const double rows = as_double(config.train.microbatch_size) * as_double(model.context);
  const double columns = 11 * (as_double(model.width) + kPaddingColumns) +
                         2 * (as_double(model.hidden()) + kPaddingColumns);
  const SwarmConfig& swarm = config.swarm;
  const std::int64_t open =
      swarm.has_pipelines() ? config.train.microbatches : swarm.in_flight(swarm.peers);
  const std::int64_t kept = config.compute.recompute == Recompute::never ? open : 0;
  // Twice the layers: every stage has scratch memory of the size of a layer.
  const double bytes =
      as_double(kept + 1) * rows * 2 * as_double(model.layers) * columns * kBytesPerActivation;
  if (bytes < kLargestCount) return std::nullopt;
  return BrokenRule{
      {"train.microbatch_size", "model.context", "model.width", "model.layers", "swarm.window"},
      "train.microbatch_size = " + number(config.train.microbatch_size) +
          " sequences of model.context = " + number(model.context) + " at model.width = " +
          number(model.width) + " and model.layers = " + number(model.layers) +
          (kept > 0 ? ", kept for swarm.window = " + number(kept) + " microbatches," : "") +
          fmt::format(" make activations of about {:.2g} bytes, far beyond any machine", bytes)};
}

Broken check_tokens(const Config& config) {
  const TrainConfig& train = config.train;
  const double tokens = as_double(train.steps) * as_double(train.microbatches) *
                        as_double(train.microbatch_size) * as_double(config.model.context);
  if (tokens < kLargestCount) return std::nullopt;
  return BrokenRule{
      {"train.steps", "train.microbatches", "train.microbatch_size", "model.context"},
      "train.steps * train.microbatches * train.microbatch_size * model.context must be below 2^62 "
      "tokens"};
}

/// A row of [[faults.at]].
Broken check_fault(const FaultAt& fault, const std::string& id, const Config& config) {
  if (fault.event == FaultEvent::flip) {
    if (fault.point == FaultPoint::any && fault.microbatch < 0) return std::nullopt;
    return BrokenRule{
        {id + ".point", id + ".microbatch", "faults.at"},
        "faults.at.event = \"flip\" takes no point and no microbatch: the bit flips after "
        "the step"};
  }
  if (config.faults.mode == FaultsMode::none) {
    return BrokenRule{{id + ".event", "faults.at", "faults.mode"},
                      "faults.at.event = " + toml_string(name_of(fault.event)) +
                          " needs faults.mode = \"kill\" or \"emulated\""};
  }
  if (fault.microbatch < 0) return std::nullopt;
  if (fault.microbatch >= config.train.microbatches) {
    return BrokenRule{
        {id + ".microbatch", "faults.at", "train.microbatches"},
        "faults.at.microbatch = " + number(fault.microbatch) +
            " must be below train.microbatches = " + number(config.train.microbatches)};
  }
  if (fault.point != FaultPoint::any && fault.point != FaultPoint::forward &&
      fault.point != FaultPoint::backward) {
    return BrokenRule{{id + ".microbatch", "faults.at"},
                      "faults.at.microbatch is for the points forward and backward, not " +
                          toml_string(name_of(fault.point))};
  }
  return std::nullopt;
}

/// Keys that kill peers need a faults.mode that says how.
Broken check_faults(const Config& config) {
  const FaultsConfig& faults = config.faults;
  const bool off = faults.mode == FaultsMode::none;
  if (off && !faults.trace.empty()) {
    return BrokenRule{{"faults.trace", "faults.mode"},
                      "faults.trace needs faults.mode = \"kill\" or \"emulated\""};
  }
  if (off && faults.mtbf_s > 0) {
    return BrokenRule{{"faults.mtbf_s", "faults.mode"},
                      "faults.mtbf_s needs faults.mode = \"kill\" or \"emulated\""};
  }
  if (config.swarm.notice_s > 0 && faults.trace.empty() && faults.mtbf_s == 0) {
    return BrokenRule{{"swarm.notice_s", "faults.trace"},
                      "swarm.notice_s needs kills, from faults.trace or faults.mtbf_s"};
  }
  if (config.swarm.spawn && faults.mode == FaultsMode::emulated) {
    return BrokenRule{
        {"swarm.spawn", "faults.mode"},
        "swarm.spawn replaces processes that have ended, but with faults.mode = \"emulated\" none "
        "ends: newcomers join where faults.trace says `join`"};
  }
  if (config.swarm.spawn && config.swarm.recovery == Recovery::off) {
    return BrokenRule{{"swarm.spawn", "swarm.recovery"},
                      "swarm.spawn needs swarm.recovery = \"lineage\" or \"redo\""};
  }
  for (std::size_t i = 0; i < config.faults_at.size(); ++i) {
    const std::string id = "faults.at[" + std::to_string(i) + "]";
    if (auto broken = check_fault(config.faults_at[i], id, config)) return broken;
  }
  return std::nullopt;
}

Broken check_paths(const Config& config) {
  // A shell would have replaced it, but not within a deck, nor behind `--set key=`.
  const auto names_home = [](const std::string& path) {
    return path == "~" || path.starts_with("~/");
  };
  const auto in_home = [](const std::string& key, const std::string& path) {
    return BrokenRule{
        {key},
        key + " = " + toml_string(path) + ": nothing replaces the ~ here; write the path in full"};
  };
  for (const auto& [key, paths] :
       {std::pair("data.paths", &config.data.paths),
        std::pair("data.validation_paths", &config.data.validation_paths)}) {
    for (const std::string& path : *paths) {
      if (path.empty()) return BrokenRule{{key}, std::string(key) + " must not hold an empty name"};
      if (names_home(path)) return in_home(key, path);
    }
  }
  if (config.output.run.empty()) {
    return BrokenRule{{"output.run"}, "output.run must not be empty"};
  }
  for (const auto& [key, path] : {std::pair("output.run", &config.output.run),
                                  std::pair("output.checkpoint", &config.output.checkpoint),
                                  std::pair("faults.trace", &config.faults.trace),
                                  std::pair("model.initial", &config.model.initial)}) {
    if (names_home(*path)) return in_home(key, *path);
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
  return check_paths(config);
}

}  // namespace

// NCCL adds up what lies on GPUs.
std::optional<BrokenRule> broken_rule_of_collectives(const Config& config) {
  const SwarmConfig& swarm = config.swarm;
  if (swarm.collectives == Collectives::none) return std::nullopt;
  const std::string key = "swarm.collectives";
  const std::string collectives = key + " = " + toml_string(name_of(swarm.collectives));
  const std::string remedy = ", or " + key + " = \"none\"";
  if (swarm.has_owners()) {
    return BrokenRule{{key, "swarm.method"},
                      collectives +
                          ": swarm.method = \"zero_offload\" stays point to point: take \"" +
                          name_of(Method::data_parallel) + "\"" + remedy};
  }
  if (config.compute.kernels != Kernels::cuda) {
    return BrokenRule{{key, "compute.kernels"},
                      collectives + " needs compute.kernels = \"cuda\", not " +
                          toml_string(name_of(config.compute.kernels)) + ": take that" + remedy};
  }
  for (std::size_t row = 0; row < config.peer_classes.size(); ++row) {
    const PeerKernels of_peers = config.peer_classes[row].kernels;
    if (!kernels_differ(of_peers, config.compute.kernels)) continue;
    return BrokenRule{{"peers[" + std::to_string(row) + "].kernels", key},
                      collectives +
                          " needs compute.kernels = \"cuda\" at all peers, and "
                          "peers.kernels = " +
                          toml_string(name_of(of_peers)) + " is another: leave it out" + remedy};
  }
  return std::nullopt;
}

std::optional<BrokenRule> broken_rule(const Config& config) {
  if (auto broken = check_model(config.model)) return broken;
  if (auto broken = check_stages(config)) return broken;
  if (auto broken = check_cuts(config)) return broken;
  if (auto broken = check_boundary(config)) return broken;
  if (auto broken = check_fp16_scale(config.swarm)) return broken;
  if (auto broken = check_pins(config.swarm)) return broken;
  if (auto broken = check_pipelines(config)) return broken;
  if (auto broken = check_shadows(config.swarm)) return broken;
  if (auto broken = check_rebalance(config.swarm)) return broken;
  if (auto broken = broken_rule_of_machines(config)) return broken;
  if (auto broken = broken_rule_of_collectives(config)) return broken;
  if (auto broken = check_heads_on_gpu(config)) return broken;
  if (auto broken = check_data(config)) return broken;
  if (auto broken = check_train(config.train)) return broken;
  if (auto broken = check_model_size(config.model)) return broken;
  if (auto broken = check_activations_size(config)) return broken;
  if (auto broken = check_tokens(config)) return broken;
  if (auto broken = check_faults(config)) return broken;
  return check_rest(config);
}

namespace {

Status check_pins_on_ranks(const SwarmConfig& swarm, std::int64_t workers) {
  const auto pins = static_cast<std::int64_t>(swarm.pins.size());
  if (pins == 0) return {};
  const std::string there = "there " + std::string(workers == 1 ? "is " : "are ") +
                            counted(workers, "worker") +
                            " (ranks less swarm.spares = " + std::to_string(swarm.spares) + ")";
  if (pins > workers) {
    return Status::bad_input("swarm.pins: " + counted(pins, "peer") + " pinned, but " + there);
  }
  if (workers < swarm.stages) {
    return Status::bad_input("swarm.pins: pinned peers serve one stage each, but " + there +
                             " for swarm.stages = " + std::to_string(swarm.stages));
  }
  const std::set<std::int64_t> served(swarm.pins.begin(), swarm.pins.end());
  const std::int64_t empty = swarm.stages - static_cast<std::int64_t>(served.size());
  if (empty <= workers - pins) return {};
  std::int64_t stage = 0;
  while (served.contains(stage)) ++stage;
  return Status::bad_input("swarm.pins: " + counted(empty, "stage") + ", the first of them " +
                           std::to_string(stage) + ", left for " +
                           counted(workers - pins, "worker") + " that no pin names");
}

// Each fault names a peer of the run. A bit flips at most once in a peer, and in a worker: a spare
// has no state.
Status check_faults_on_ranks(const Config& config, std::int64_t ranks) {
  std::set<std::int64_t> flipped;
  for (std::size_t i = 0; i < config.faults_at.size(); ++i) {
    const FaultAt& fault = config.faults_at[i];
    const auto peer = fault.peer;
    const auto refuse = [&](const char* text) {
      return Status::bad_input(fmt::format("faults.at[{}]: peer {} {}", i, peer, text));
    };
    if (fault.peer >= ranks) {
      return Status::bad_input(fmt::format("faults.at[{}]: there is no peer {} among {}", i, peer,
                                           counted(ranks, "rank")));
    }
    if (fault.peer >= ranks - config.swarm.spares) {
      return refuse("is a spare, without work or state; only faults.trace can kill it");
    }
    if (fault.event != FaultEvent::flip) continue;
    if (!flipped.insert(fault.peer).second) return refuse("has a bit flipped already");
  }
  return {};
}

}  // namespace

Status check_ranks(const Config& config, std::int64_t ranks) {
  const std::int64_t spares = config.swarm.spares;
  if (ranks <= spares) {
    return Status::bad_input("swarm.spares: not enough ranks: " + counted(spares, "spare") +
                             " of " + counted(ranks, "rank") + " would leave no worker");
  }
  if (Status status = check_faults_on_ranks(config, ranks); !status.ok()) return status;
  return check_pins_on_ranks(config.swarm, ranks - spares);
}

}  // namespace swarmpi
