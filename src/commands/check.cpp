#include "commands/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "commands/bench/bench.hpp"
#include "commands/machines_report.hpp"
#include "commands/train/preemption.hpp"
#include "commands/train/start_point.hpp"
#include "config/deck.hpp"
#include "config/rules.hpp"
#include "core/hash.hpp"
#include "core/machine.hpp"
#include "core/text.hpp"
#include "data/dataset.hpp"
#include "hardware/device.hpp"
#include "model/boundary.hpp"
#include "model/cost.hpp"
#include "model/initial_weights.hpp"
#include "model/make_backend.hpp"
#include "model/peer_budget.hpp"
#include "model/tensors.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/method/layout.hpp"
#include "protocol/method/room_layout.hpp"
#include "report/progress.hpp"
#include "runtime/assembly.hpp"
#include "transport/nccl/library.hpp"

namespace swarmpi {
namespace {

constexpr std::size_t kMostShown = 16;  // of a list of peers or stages

std::string count(double value) { return readable_count(value); }
std::string bytes(std::int64_t value) { return readable_bytes(as_double(value)); }

void describe_model(const Config& config, std::vector<std::string>& lines) {
  const ModelConfig& model = config.model;
  const double tokens =
      as_double(config.train.microbatches * config.train.microbatch_size * model.context);
  const double flops = model_flops_per_token(config);
  lines.push_back("parameters         " + count(as_double(parameter_count(config))));
  lines.push_back("FLOPs per token    " + count(flops) + " (forward and backward)");
  lines.push_back("tokens per step    " + count(tokens) +
                  fmt::format(" ({} microbatches of {} sequences of {})", config.train.microbatches,
                              config.train.microbatch_size, model.context));
  const double all = tokens * as_double(config.train.steps);
  lines.push_back("tokens in all      " + count(all) +
                  fmt::format(" in {} steps, ", config.train.steps) + count(all * flops) +
                  " FLOPs");
}

void describe_data(const Config& config, const Dataset& data, std::vector<std::string>& lines) {
  const double used = as_double(config.train.steps) * as_double(config.train.microbatches) *
                      as_double(config.train.microbatch_size);
  lines.push_back("data               " + count(as_double(data.tokens())) +
                  " tokens: " + count(as_double(data.train_sequences())) +
                  " sequences to train on, " + count(as_double(data.validation_sequences())) +
                  (config.data.validation_paths.empty() ? " held out" : " for validation"));
  lines.push_back(
      fmt::format("passes over data   {:.3g}", used / as_double(data.train_sequences())));
  for (const std::string& warning : data.warnings()) {
    lines.push_back("WARNING            " + warning);
  }
}

/// They are no errors: a resumed run may have more steps.
void describe_late_faults(const Config& config, std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < config.faults_at.size(); ++i) {
    const FaultAt& fault = config.faults_at[i];
    if (fault.step <= config.train.steps) continue;
    lines.push_back(fmt::format(
        "WARNING            faults.at[{}]: the {} of peer {} at step {} will not happen: "
        "train.steps is {}",
        i, name_of(fault.event), fault.peer, fault.step, config.train.steps));
  }
}

// ---- The peers: what depends on how many there are

using Numbers = std::set<std::int64_t>;

/// Groups peers that serve the same stages.
std::map<Numbers, Numbers> group_by_stages(const View& view) {
  std::map<Numbers, Numbers> groups;
  for (const auto& [peer, served] : view.members()) {
    Numbers stages;
    for (const StageId stage : served) stages.insert(stage.value);
    groups[stages].insert(peer.value);
  }
  return groups;
}

std::string named(const std::string& noun, const Numbers& numbers) {
  Numbers shown = numbers;
  while (shown.size() > kMostShown) shown.erase(std::prev(shown.end()));
  const bool all = shown.size() == numbers.size();
  return noun + (numbers.size() == 1 ? " " : "s ") + number_list(shown) +
         (all ? "" : ",... (" + std::to_string(numbers.size()) + " in all)");
}

/// All peers of the deck on this machine, and on the GPUs that it has.
Sharers sharers_of(const Config& config, const kernels::Backend& backend) {
  return on_one_machine(config.swarm.peers, backend.device() ? kernels::cuda_devices() : 0);
}

struct LargestPeer {
  std::int64_t peer = 0;
  Numbers stages;
  PeerMemory memory;
  bool has_device = false;  // boundaries lie in the host's memory, all else does not
  std::int64_t slots = 0;
  std::int64_t boundaries_bytes = 0;
  std::int64_t gradient_bytes = 0;   // reduced, of the stages that have other replicas
  std::int64_t owned_bytes = 0;      // its share, where each replica owns a range
  std::int64_t most_kept_bytes = 0;  // for repairs

  std::int64_t total_bytes() const {
    return memory.fixed_bytes + slots * memory.activation_slot_bytes +
           (has_device ? 0 : boundaries_bytes) + gradient_bytes + owned_bytes;
  }
};

/// Bytes of boundary tensors that a peer holds where the replicas of each stage share its
/// microbatches evenly: inputs that wait for their backward pass, and tensors sent and kept for
/// repairs, of which it has room for `most_kept_bytes`.
std::int64_t boundaries_bytes(const Config& config, const View& view, const Numbers& served,
                              std::int64_t workers, std::int64_t most_kept_bytes) {
  const std::int64_t open = config.train.microbatches * config.train.delay();
  const bool pipelines = config.swarm.has_pipelines();
  const std::int64_t at_a_peer = most_open_at_a_peer(config, workers);
  const bool keeps = view.members().size() > 1 && config.swarm.recovery == Recovery::lineage;
  const BoundaryBytes each = boundary_bytes(config);
  std::int64_t waiting_bytes = 0, kept_bytes = 0;
  for (const std::int64_t stage : served) {
    const auto replicas =
        static_cast<std::int64_t>(view.replicas(StageId(static_cast<std::int32_t>(stage))).size());
    const bool first = stage == 0, last = stage == config.swarm.stages - 1;
    const std::int64_t at_once = pipelines ? at_a_peer : (at_a_peer + replicas - 1) / replicas;
    if (!first) waiting_bytes += at_once * each.activations;
    if (!keeps) continue;
    const std::int64_t share = (open + replicas - 1) / replicas;
    kept_bytes += share * ((first ? 0 : each.gradients) + (last ? 0 : each.activations));
  }
  return waiting_bytes + std::min(kept_bytes, most_kept_bytes);
}

LargestPeer largest_peer(const Config& config, const std::vector<StageSpec>& stages,
                         kernels::Backend& backend, const View& view, const RunPlan& plan,
                         std::int64_t workers) {
  LargestPeer largest;
  const Sharers sharers = sharers_of(config, backend);
  const std::optional<HostMemory> host = host_memory(config, stages, backend, workers, sharers);
  for (const auto& [served, peers] : group_by_stages(view)) {
    if (served.empty()) continue;
    std::vector<StageSpec> own;
    LargestPeer one;
    for (const std::int64_t stage : served) {
      own.push_back(stages.at(static_cast<std::size_t>(stage)));
      const auto id = StageId(static_cast<std::int32_t>(stage));
      if (view.replicas(id).size() > 1) {
        one.gradient_bytes += stage_memory(config, own.back(), backend).gradient_bytes;
      }
      one.owned_bytes +=
          stage_memory(config, own.back(), backend).owned(std::ssize(view.replicas(id)));
    }
    one.peer = *peers.begin();
    one.stages = served;
    one.memory = peer_memory(config, own, backend);
    one.has_device = host.has_value();
    one.slots = activation_slots(config, own, backend, workers, sharers);
    const PeerId first(static_cast<std::int32_t>(*peers.begin()));
    one.most_kept_bytes = host
                              ? host->kept_bytes
                              : kept_bytes(plan.needs, view, first, kept_for_repairs_bytes(config));
    one.boundaries_bytes = boundaries_bytes(config, view, served, workers, one.most_kept_bytes);
    if (one.total_bytes() > largest.total_bytes()) largest = one;
  }
  return largest;
}

void describe_memory(const Config& config, const LargestPeer& largest,
                     std::vector<std::string>& lines) {
  lines.push_back("largest peer       peer " + std::to_string(largest.peer) + " with " +
                  named("stage", largest.stages) + ": " + bytes(largest.total_bytes()) + ", " +
                  bytes(largest.memory.kernels_bytes) + " of it scratch of the kernels, " +
                  (largest.has_device ? "on the GPU; on the host " : "") +
                  bytes(largest.boundaries_bytes) +
                  " boundaries between stages; the process itself adds about 35 MiB, "
                  "44 under mpirun");
  lines.push_back("recomputation      " + name_of(config.compute.recompute) + ": " +
                  (largest.memory.activation_slot_bytes == 0 ? "the last stage needs none"
                   : largest.slots == 0
                       ? "every forward pass is done again before its backward pass"
                       : "activations of up to " + std::to_string(largest.slots) +
                             " microbatches are kept, more are recomputed"));
}

/// How many microbatches are at work, and in which order.
std::string order_of_work(const Config& config, const View& view, std::int64_t workers) {
  const SwarmConfig& swarm = config.swarm;
  if (!swarm.has_pipelines()) {
    return fmt::format("window             {} microbatches in flight{}", swarm.in_flight(workers),
                       swarm.window > 0 ? "" : ", by default");
  }
  const char* const how =
      swarm.method == Method::gpipe         ? "of a step in each, all forward passes first"
      : swarm.method == Method::one_f_one_b ? "open in each, backward passes first"
                                            : "of a step in each";
  return fmt::format("pipelines          {} by \"{}\": at most {} microbatches {}",
                     view.replicas(StageId(0)).size(), name_of(swarm.method),
                     most_open_at_a_peer(config, workers), how);
}

/// How many spares learn beforehand, and what that takes. Which stages is decided as they go.
std::string shadows_text(const Config& config, const std::vector<StageSpec>& stages,
                         kernels::Backend& backend) {
  std::int64_t largest_bytes = 0;
  for (const StageSpec& stage : stages) {
    largest_bytes = std::max(largest_bytes, stage_memory(config, stage, backend).fixed_bytes());
  }
  const std::int64_t shadows = config.swarm.shadows;
  const bool all = shadows >= config.swarm.stages;
  return "  shadows          " + std::to_string(shadows) + " of them " +
         (shadows == 1 ? "learns" : "learn") + " a stage at once, up to " + bytes(largest_bytes) +
         " each" +
         (all ? ""
              : "; a stage that none learns is not covered (swarm.stages = " +
                    std::to_string(config.swarm.stages) + ")");
}

/// The plan of a run whose peers may all take as much.
RunPlan plan_of(const Config& config, const std::vector<StageSpec>& stages,
                kernels::Backend& backend, std::int64_t workers) {
  RunPlan plan = make_plan(config, stages, workers);
  plan.needs = memory_needs(config, stages, backend, workers);
  return plan;
}

/// By the machine and the devices of the deck; none: no bound.
Budgets budgets_of(const Config& config, const kernels::Backend& backend) {
  Budgets budgets;
  for (const PeerId peer : make_membership(config.swarm.peers, 0).all()) {
    const auto budget = peer_budget_bytes(config, peer, backend, sharers_of(config, backend));
    if (budget) budgets[peer] = *budget;
  }
  return budgets;
}

std::optional<std::int64_t> least_budget(const Config& config, const kernels::Backend& backend) {
  std::optional<std::int64_t> least;
  for (const auto& [peer, budget] : budgets_of(config, backend)) {
    least = std::min(least.value_or(budget), budget);
  }
  return least;
}

InitialMembership membership_of(std::int64_t ranks, std::int64_t spares, Budgets budgets) {
  InitialMembership membership = make_membership(ranks, spares);
  membership.budgets = std::move(budgets);
  return membership;
}

/// The least number of peers that have room for all stages.
std::int64_t least_peers(const Config& config, const RunPlan& plan, std::int64_t budget) {
  const auto have_room = [&](std::int64_t peers) {
    InitialMembership membership = make_membership(peers, 0);
    for (const PeerId peer : membership.all()) membership.budgets[peer] = budget;
    return lay_out_in_room(plan, {membership.workers, {}}, membership.budgets).has_value();
  };
  const std::int64_t all = config.swarm.peers;
  if (config.swarm.has_owners()) {
    // The more they are the less each has of what the replicas have between them.
    std::int64_t too_few = 0, enough = all;
    while (enough - too_few > 1) {
      const std::int64_t middle = (too_few + enough) / 2;
      (have_room(middle) ? enough : too_few) = middle;
    }
    return enough;
  }
  // With more of them each stage has a peer of its own, and all stages fit or never will.
  for (std::int64_t peers = 1; peers <= std::min(all, std::ssize(plan.needs.stages)); ++peers) {
    if (have_room(peers)) return peers;
  }
  return all;
}

/// What it takes to learn the stage that needs most, alone and beside one that is served.
std::string learning_line(const MemoryNeeds& needs) {
  std::int64_t alone = 0, beside = 0;
  for (const StageNeeds& learned : needs.stages) {
    alone = std::max(alone, learned.learning_bytes);
    for (const StageNeeds& served : needs.stages) {
      if (&served == &learned) continue;
      beside = std::max(beside, learned.learning_bytes + served.serving_bytes);
    }
  }
  std::string line = "  learning         a stage takes " + bytes(needs.peer_bytes + alone);
  if (beside > 0) line += ", " + bytes(needs.peer_bytes + beside) + " beside another";
  return line;
}

/// What the memory of a peer follows from.
std::string source_of_budget(const Config& config, const kernels::Backend& backend) {
  if (config.compute.memory_gb > 0) return "compute.memory_gb";
  const std::string peers = counted(config.swarm.peers, "peer");
  if (!backend.own_memory()) {
    return "its share of nine tenths of this machine's, with " + peers + " on it";
  }
  const Sharers sharers = sharers_of(config, backend);
  return "its share of nine tenths of a GPU's, with " + counted(sharers.on_device, "peer") +
         " on it: " + peers + " on this machine, which has " +
         counted(kernels::cuda_devices(), "GPU");
}

/// What a peer may take and can hold, and how many deaths leave room for all stages.
void describe_room(const Config& config, const kernels::Backend& backend, const RunPlan& plan,
                   std::int64_t workers, std::vector<std::string>& lines) {
  const std::optional<std::int64_t> budget = least_budget(config, backend);
  const bool hollow = config.compute.kernels == Kernels::none;
  if (!budget) {
    const bool simulated = config.compute.fidelity == Fidelity::simulated;
    const char* const why = simulated ? "no device of the deck has memory_gb"
                            : hollow  ? "it computes nothing"
                                      : "compute.memory_gb is 0, and what this machine has cannot "
                                        "be read";
    lines.push_back(std::string("memory of a peer   not bounded: ") + why);
    return;
  }
  const bool of_device =
      hollow || budget != budget_bytes(config, backend, sharers_of(config, backend));
  lines.push_back("memory of a peer   " + bytes(*budget) + " (" +
                  (of_device && config.compute.memory_gb == 0 ? "the least of the peers' devices"
                                                              : source_of_budget(config, backend)) +
                  ")");
  std::vector<std::int64_t> sizes;
  Numbers too_large;
  for (std::size_t s = 0; s < plan.needs.stages.size(); ++s) {
    sizes.push_back(plan.needs.stages[s].serving_bytes_of(workers));
    if (plan.needs.peer_bytes + sizes.back() > *budget) {
      too_large.insert(static_cast<std::int64_t>(s));
    }
  }
  std::sort(sizes.begin(), sizes.end());
  std::int64_t taken = plan.needs.peer_bytes, most = 0;
  for (const std::int64_t size : sizes) most += (taken += size) <= *budget ? 1 : 0;
  lines.push_back(fmt::format("  can hold         {} at once{}", counted(most, "stage"),
                              too_large.empty() ? "" : ", but not " + named("stage", too_large)));
  if (config.swarm.peers < 2 || config.swarm.recovery == Recovery::off) return;
  if (!config.swarm.has_pipelines()) lines.push_back(learning_line(plan.needs));
  if (!too_large.empty()) return;  // no number of such peers can hold all
  const std::int64_t least = least_peers(config, plan, *budget);
  lines.push_back(fmt::format("  deaths           {} leave room for all stages{}",
                              config.swarm.peers - least,
                              least == 1 ? ""
                                         : fmt::format("; with fewer than {} the run ends, and "
                                                       "can be resumed with more",
                                                       counted(least, "peer"))));
}

void append(std::vector<std::string> more, std::vector<std::string>& lines) {
  std::move(more.begin(), more.end(), std::back_inserter(lines));
}

/// Whether the devices of the first so many peers differ.
bool are_uneven(const Config& config, std::int64_t peers) {
  const auto speed = [&config](std::int64_t peer) {
    const auto device = device_of(config, PeerId(static_cast<std::int32_t>(peer)));
    return device ? std::pair(device->gflops, device->peak_tflops) : std::pair(0.0, 0.0);
  };
  for (std::int64_t peer = 1; peer < peers; ++peer) {
    if (speed(peer) != speed(0)) return true;
  }
  return false;
}

/// What a wider window would take, where the default one starves the swarm (docs/deck.md).
std::optional<std::string> wider_window_line(const Config& config,
                                             const std::vector<StageSpec>& stages,
                                             kernels::Backend& backend, const View& view,
                                             const RunPlan& plan, std::int64_t workers) {
  constexpr std::int64_t kTimesTheWorkers = 4, kManyStages = 8;
  const SwarmConfig& swarm = config.swarm;
  const bool by_default = swarm.window == 0 && !swarm.has_pipelines();
  const bool chooses = swarm.stages > 1 && workers > swarm.stages;  // among replicas
  const bool wants_more = swarm.in_flight(workers) < config.train.microbatches;
  if (!by_default || !chooses || !wants_more) return std::nullopt;
  const bool uneven = are_uneven(config, workers);
  const bool many = swarm.stages >= kManyStages && workers >= 2 * swarm.stages;
  if (!uneven && !many) return std::nullopt;
  Config wide = config;
  wide.swarm.window = std::min(kTimesTheWorkers * workers, config.train.microbatches);
  const LargestPeer largest = largest_peer(wide, stages, backend, view, plan, workers);
  return fmt::format(
      "  a wider one      swarm.window = {} may be up to a quarter faster, for {}; the largest "
      "peer "
      "would take {}",
      wide.swarm.window, uneven ? "peers are uneven" : "there are many stages",
      bytes(largest.total_bytes()));
}

/// Describes who serves what on `swarm.peers` ranks, of whom one dies each `between_deaths_s`, the
/// window, and the memory of the largest peer.
void describe_peers(const Config& config, const std::vector<StageSpec>& stages,
                    kernels::Backend& backend, double between_deaths_s,
                    std::vector<std::string>& lines) {
  const std::int64_t ranks = config.swarm.peers;
  if (const Status status = check_ranks(config, ranks); !status.ok()) {
    lines.push_back("peers              not on swarm.peers = " + std::to_string(ranks) + ": " +
                    status.message());
    return;
  }
  const std::int64_t workers = ranks - config.swarm.spares;
  const RunPlan plan = plan_of(config, stages, backend, workers);
  const InitialMembership membership =
      membership_of(ranks, config.swarm.spares, budgets_of(config, backend));
  describe_room(config, backend, plan, workers, lines);
  const std::optional<View> dealt = first_deal(plan, membership);
  if (!dealt) {
    lines.push_back("peers              cannot hold all stages: " +
                    shortage(plan, {membership.workers, membership.spares, {}, config.swarm.pins},
                             membership.budgets));
    // Its machines may not be this one.
    if (const auto anywhere = first_deal(plan, membership_of(ranks, config.swarm.spares, {}))) {
      append(machines_report(config, stages, *anywhere, workers, between_deaths_s), lines);
    }
    return;
  }
  const View& view = *dealt;
  const auto groups = group_by_stages(view);
  for (const auto& [served, peers] : groups) {
    if (served.empty()) continue;
    lines.push_back(fmt::format("{:18} ", "serving " + named("stage", served)) +
                    named("peer", peers));
  }
  if (const auto spares = groups.find({}); spares != groups.end()) {
    lines.push_back("waiting as spares  " + named("peer", spares->second));
    if (config.swarm.shadows > 0) lines.push_back(shadows_text(config, stages, backend));
  }
  lines.push_back(order_of_work(config, view, workers));
  if (auto wider = wider_window_line(config, stages, backend, view, plan, workers)) {
    lines.push_back(*std::move(wider));
  }
  append(machines_report(config, stages, view, workers, between_deaths_s), lines);
  const LargestPeer largest = largest_peer(config, stages, backend, view, plan, workers);
  describe_memory(config, largest, lines);
  if (config.swarm.has_owners()) {
    lines.push_back("owned              of this " + bytes(largest.owned_bytes) +
                    " are the moments of the range that the peer owns" +
                    (workers > 1 ? ", and its reduced gradient" : ""));
  }
  if (config.swarm.has_pipelines()) {
    lines.push_back(
        "for repairs        nothing is kept: a death sends all back to the last checkpoint");
  } else if (ranks > 1) {
    lines.push_back("for repairs        a peer keeps at most " + bytes(largest.most_kept_bytes) +
                    " of what it sent (recovery = \"" + name_of(config.swarm.recovery) + "\")");
  }
}

// ---- The stages and this machine

/// What crosses a cut for each microbatch.
std::string crossing_text(const Config& config) {
  const SwarmConfig& swarm = config.swarm;
  const BoundaryBytes each = boundary_bytes(config);
  const auto codec = [](Codec of) { return of == Codec::none ? "fp32" : name_of(of); };
  return "between stages     " + bytes(each.activations) + " forward (" +
         codec(swarm.compress_activations) + "), " + bytes(each.gradients) + " back (" +
         codec(swarm.compress_gradients) + ") for each microbatch" +
         (swarm.boundary == Boundary::plain
              ? ""
              : fmt::format(", {} columns of {} by a {}", swarm.boundary_width(config.model.width),
                            config.model.width, name_of(swarm.boundary)));
}

void describe_stages(const Config& config, double between_deaths_s,
                     std::vector<std::string>& lines) {
  const std::vector<StageSpec> stages = partition_model(config);
  const auto backend = make_backend(config);
  double flops = 0;
  for (const StageSpec& stage : stages) flops += stage.flops_per_token;
  for (const StageSpec& stage : stages) {
    std::int64_t parameters = 0;
    for (const TensorInfo& tensor : stage.tensors) parameters += tensor.count();
    lines.push_back(
        fmt::format("stage {:<3}          {}layers {} to {}{}: {} parameters, {:.1f}% of FLOPs",
                    stage.stage, stage.has_embedding ? "embedding, " : "", stage.first_layer,
                    stage.end_layer - 1, stage.has_head ? ", head" : "",
                    count(as_double(parameters)), 100 * stage.flops_per_token / flops));
    if (!backend.ok()) continue;
    const StageMemory memory = stage_memory(config, stage, *backend.value());
    lines.push_back("  memory           " + bytes(memory.fixed_bytes()) + ": state " +
                    bytes(memory.state_bytes) + ", sums " + bytes(memory.sums_bytes) +
                    ", scratch " + bytes(memory.scratch_bytes) + "; " +
                    bytes(memory.activation_slot_bytes) + " for each microbatch kept; " +
                    (memory.owned_bytes > 0
                         ? bytes(memory.owned_bytes) + " that its replicas have between them"
                         : bytes(memory.gradient_bytes) + " where the stage has replicas"));
  }
  if (stages.size() > 1) lines.push_back(crossing_text(config));
  if (!backend.ok()) {
    lines.push_back("memory             cannot be computed here: " + backend.status().message());
    return;
  }
  describe_peers(config, stages, *backend.value(), between_deaths_s, lines);
}

/// FLOP/s of matrix products on compute.threads threads.
struct ProductSpeed {
  double fp32 = 0, bf16 = 0;
};

Result<ProductSpeed> measure_products(Config config) {
  const std::int64_t size = config.compute.kernels == Kernels::cuda ? 4096 : 512;
  ProductSpeed speed;
  for (const auto& [precision, flops_per_s] :
       {std::pair{Precision::fp32, &speed.fp32}, std::pair{Precision::bf16, &speed.bf16}}) {
    config.model.precision = precision;
    const auto backend = make_backend(config);
    if (!backend.ok()) return backend.status();
    backend.value()->prepare_thread();
    *flops_per_s = product_flops_per_s(*backend.value(), size, config.compute.threads);
  }
  return speed;
}

std::string products_text(const Config& config, const ProductSpeed& speed) {
  const auto& [fp32, bf16] = speed;
  if (config.compute.kernels == Kernels::cuda) {
    return fmt::format("fp32 {:.1f}, bf16 {:.1f} TFLOP/s (measured just now)", 1e-12 * fp32,
                       1e-12 * bf16);
  }
  const char* const advice = bf16 > 1.2 * fp32   ? "bf16 does most"
                             : fp32 > 1.2 * bf16 ? "fp32 does most"
                                                 : "bf16 is no faster";
  return fmt::format(
      "fp32 {:.0f}, bf16 {:.0f} GFLOP/s a peer of {} thread{} (measured just now): {}", 1e-9 * fp32,
      1e-9 * bf16, config.compute.threads, config.compute.threads == 1 ? "" : "s", advice);
}

std::string time_text(const Config& config, const ProductSpeed& speed) {
  const double flops_per_s = config.model.precision == Precision::bf16 ? speed.bf16 : speed.fp32;
  const double tokens = as_double(config.train.steps * config.train.microbatches) *
                        as_double(config.train.microbatch_size * config.model.context);
  const double peers = as_double(config.swarm.peers);
  const double seconds = tokens * model_flops_per_token(config) / flops_per_s / peers;
  return fmt::format(
      "{} on {}, each with {} of its own: all FLOPs at the speed of products, nothing else; "
      "`swarmpi bench model` tells how near to it a model comes",
      duration_text(seconds), counted(config.swarm.peers, "peer"),
      config.compute.kernels == Kernels::cuda ? "a GPU" : counted(config.compute.threads, "core"));
}

void describe_speed(const Config& config, std::vector<std::string>& lines) {
  const Result<ProductSpeed> speed = measure_products(config);
  if (!speed.ok()) {
    lines.push_back("products           cannot be measured here: " + speed.status().message());
    return;
  }
  lines.push_back("products           " + products_text(config, speed.value()));
  lines.push_back("time at best       " + time_text(config, speed.value()));
}

std::string describe_nccl() {
  const Result<const NcclLibrary*> nccl = NcclLibrary::load();
  if (!nccl.ok()) return "WARNING: all goes point to point: " + nccl.status().message();
  return "NCCL " + nccl.value()->version();
}

void describe_machine(const Config& config, std::vector<std::string>& lines) {
  const Machine machine = this_machine();
  lines.push_back("machine            " + machine.cpu + ", " + std::to_string(machine.cores) +
                  " cores, " + bytes(machine.memory_bytes));
  if (config.compute.kernels == Kernels::cuda) {
    const std::string problem = kernels::cuda_problem();
    lines.push_back("GPU                " +
                    (problem.empty() ? kernels::cuda_description() : "WARNING: " + problem));
    lines.push_back("precision          " + name_of(config.model.precision));
    if (problem.empty()) describe_speed(config, lines);
    if (config.swarm.has_collectives()) lines.push_back("collectives        " + describe_nccl());
    return;
  }
  const bool warn = config.model.precision == Precision::bf16 && !machine.bf16_products();
  lines.push_back("precision          " + name_of(config.model.precision) +
                  (warn ? " (WARNING)" : "") + "; " + bf16_advice(machine));
  if (config.compute.kernels == Kernels::native) describe_speed(config, lines);
}

void write_report(const Config& config, const std::vector<std::string>& report, std::ostream& out) {
  out << resolved_deck(config) << "\n";
  for (const std::string& line : report) out << "# " << line << "\n";
}

}  // namespace

std::vector<std::string> check_report(const Config& config, const Dataset& data,
                                      double between_deaths_s) {
  std::vector<std::string> lines;
  describe_model(config, lines);
  describe_data(config, data, lines);
  describe_late_faults(config, lines);
  describe_stages(config, between_deaths_s, lines);
  describe_machine(config, lines);
  return lines;
}

std::vector<std::string> check_report_of_simulation(Config config, double between_deaths_s) {
  config.compute.kernels = Kernels::none;  // no peer is on this machine
  std::vector<std::string> lines;
  describe_model(config, lines);
  lines.push_back("data               none are read: the run is simulated");
  describe_late_faults(config, lines);
  describe_stages(config, between_deaths_s, lines);
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
  const Result<double> deaths = between_deaths_s(config);
  if (!deaths.ok()) return with_place(config, deaths.status());
  if (config.compute.fidelity == Fidelity::simulated) {
    write_report(config, check_report_of_simulation(config, deaths.value()), out);
    return {};
  }
  const Result<Dataset> data = Dataset::open(config);
  if (!data.ok()) return with_place(config, data.status());
  const Result<std::uint64_t> hash = data.value().scan();
  if (!hash.ok()) return with_place(config, hash.status());
  config.data.hash = hex(hash.value());
  if (const Status known = check_initial_weights(config.model); !known.ok()) {
    return with_place(config, known);
  }
  const Status initial = adopt_initial_weights(config.model);
  if (!initial.ok()) return with_place(config, initial);

  write_report(config, check_report(config, data.value(), deaths.value()), out);
  return {};
}

}  // namespace swarmpi
