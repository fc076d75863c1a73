#include "model/cost.hpp"

#include <algorithm>

#include "core/machine.hpp"
#include "core/text.hpp"
#include "model/activations.hpp"
#include "model/boundary.hpp"
#include "model/passes.hpp"
#include "model/stage_gradient.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/method/layout.hpp"
#include "protocol/reduction/weight_gather.hpp"
#include "protocol/replica/fetch_window.hpp"

namespace swarmpi {
namespace {

// Both products of the backward pass cost what the forward one does; a multiply-add is two FLOPs.
constexpr double kFlopsPerWeight = 6;

}  // namespace

double layer_flops_per_token(const ModelConfig& model) {
  const double width = as_double(model.width);
  const double weights = 4 * width * width + 2 * width * as_double(model.hidden());
  return kFlopsPerWeight * weights + 6 * as_double(model.context) * width;  // causal attention
}

double linear_flops_per_token(std::int64_t weights) { return kFlopsPerWeight * as_double(weights); }

double head_flops_per_token(const ModelConfig& model) {
  return linear_flops_per_token(model.vocab * model.width);
}

double model_flops_per_token(const ModelConfig& model) {
  return as_double(model.layers) * layer_flops_per_token(model) + head_flops_per_token(model);
}

double model_flops_per_token(const Config& config) {
  double flops = 0;
  for (const StageSpec& stage : partition_model(config)) flops += stage.flops_per_token;
  return flops;
}

double job_flops(const Config& config, const StageSpec& spec, const Job& job,
                 const JobResult& result) {
  double thirds = 0;
  if (holds_alternative<ForwardJob>(job)) thirds = 1;
  if (const auto* backward = get_if<BackwardJob>(&job)) {
    const auto* backward_result = get_if<BackwardResult>(&result);
    const bool with_forward = backward_result != nullptr && backward_result->with_forward;
    thirds = spec.has_head || with_forward ? 3 : 2;
    if (!backward->add) thirds -= 1;  // makes no gradients of weights
  }
  const std::int64_t tokens = config.train.microbatch_size * config.model.context;
  return thirds / 3 * spec.flops_per_token * as_double(tokens);
}

StageMemory stage_memory(const Config& config, const StageSpec& spec, kernels::Backend& backend) {
  const StageShape shape(config, spec);
  const StageTensors tensors(spec);
  const std::int64_t delay = config.train.delay();
  const std::int64_t floats = tensors.elements() * static_cast<std::int64_t>(sizeof(float));
  Layout slot(nullptr, backend);
  lay_out_activations(slot, shape);
  Layout work(nullptr, backend);
  lay_out_work(work, shape, spec);

  StageMemory memory;
  const bool has_owners = config.swarm.has_owners();
  memory.state_bytes =
      (delay + (has_owners ? 0 : 2)) * floats + delay * multiplied_bytes(tensors, backend);
  const std::int64_t sums = delay + (config.swarm.has_collectives() ? 1 : 0);
  memory.sums_bytes = sums * 2 * floats + StageGradient::scratch_bytes(tensors);
  memory.gradient_bytes = has_owners ? 0 : floats;
  memory.owned_bytes = has_owners ? 3 * floats : 0;
  memory.activation_slot_bytes = spec.has_head ? 0 : slot.size_bytes();
  memory.scratch_bytes = slot.size_bytes() + work.size_bytes();
  return memory;
}

PeerMemory peer_memory(const Config& config, const std::vector<StageSpec>& stages,
                       kernels::Backend& backend) {
  PeerMemory sum;
  if (stages.empty()) return sum;  // a spare
  const kernels::WorkShape shape = StageShape(config, stages.front()).work();
  sum.kernels_bytes = static_cast<std::int64_t>(backend.scratch_bytes(shape));
  sum.fixed_bytes = sum.kernels_bytes;
  for (const StageSpec& spec : stages) {
    const StageMemory memory = stage_memory(config, spec, backend);
    sum.fixed_bytes += memory.fixed_bytes();
    sum.gradient_bytes += memory.gradient_bytes;
    sum.owned_bytes += memory.owned_bytes;
    sum.activation_slot_bytes += memory.activation_slot_bytes;
  }
  return sum;
}

Sharers on_one_machine(std::int64_t peers, std::int64_t devices) {
  return {peers, devices > 0 ? (peers + devices - 1) / devices : 0};
}

namespace {

// A tenth is for the processes themselves.
std::optional<std::int64_t> share_of_host_bytes(const Sharers& sharers) {
  const std::int64_t usable_bytes = usable_memory_bytes();
  if (usable_bytes <= 0) return std::nullopt;
  return usable_bytes / 10 * 9 / sharers.on_host;
}

// A tenth is for the device's own libraries.
std::int64_t share_of_device_bytes(const kernels::OwnMemory& device, const Sharers& sharers) {
  const auto on_device = static_cast<std::size_t>(sharers.on_device);
  const std::size_t share = on_device > 0 ? device.share_among(on_device) : device.share_bytes;
  return static_cast<std::int64_t>(share) / 10 * 9;
}

}  // namespace

std::optional<std::int64_t> budget_bytes(const Config& config, const kernels::Backend& backend,
                                         const Sharers& sharers) {
  const std::optional<kernels::OwnMemory> device = backend.own_memory();
  if (config.compute.memory_gb > 0) {
    const auto given_bytes = static_cast<std::int64_t>(config.compute.memory_gb * 1e9);
    const std::int64_t there_bytes =
        device ? static_cast<std::int64_t>(device->total_bytes) : usable_memory_bytes();
    return there_bytes > 0 ? std::min(given_bytes, there_bytes) : given_bytes;
  }
  if (device) return share_of_device_bytes(*device, sharers);
  return share_of_host_bytes(sharers);
}

namespace {

// Of a learner: gradients that it keeps for pieces of state on their way. Chunks of a reduction on
// their way.
constexpr std::int64_t kPieceElements = 1 << 17;
constexpr std::int64_t kKeptGradientBytes = 64 << 20;
constexpr std::int64_t kChunksOnTheirWay = 8;
constexpr std::int64_t kChunkElements = 1 << 17;
// Of an element of such a chunk: its sum, and what becomes of it in fp32.
constexpr std::int64_t kReductionBytes = 12;

// Others may come to serve these stages, too.
bool may_have_fellows(const Config& config, std::int64_t workers) {
  return workers > 1 || config.swarm.spares > 0 || config.swarm.spawn ||
         !config.faults.trace.empty();
}

// Of all owners, at each peer: what has come may wait for its commit, or for a checkpoint.
std::int64_t weights_on_their_way(std::int64_t elements, std::int64_t owners) {
  if (owners == 1) return 0;
  const std::int64_t chunks = kMostWeightChunks * owners * chunk_elements(elements, owners);
  return static_cast<std::int64_t>(sizeof(float)) * std::min(elements, chunks);
}

// Inputs that wait for their backward pass.
std::int64_t waiting_bytes(const Config& config, const StageSpec& spec, std::int64_t workers) {
  if (spec.has_embedding) return 0;
  return most_open_at_a_peer(config, workers) * boundary_bytes(config).activations;
}

// Chunks of a reduction, and boundaries.
std::int64_t bytes_on_their_way(const Config& config, const std::vector<StageSpec>& specs,
                                std::int64_t workers) {
  if (!may_have_fellows(config, workers)) return 0;
  std::int64_t most = 0;
  for (const StageSpec& spec : specs) most = std::max(most, StageTensors(spec).elements());
  return kReductionBytes * std::min(most, kChunksOnTheirWay * kChunkElements) +
         2 * boundary_bytes(config).both();
}

// Pieces of a state that a learner waits for, and gradients for these.
std::int64_t learned_bytes(const Config& config, const StageSpec& spec) {
  const std::int64_t values = config.train.delay() + 2;  // of an element: weights and moments
  const auto value_bytes = static_cast<std::int64_t>(sizeof(float));
  return kKeptGradientBytes +
         values * value_bytes *
             std::min(StageTensors(spec).elements(), kMostPieces * kPieceElements);
}

StageNeeds stage_needs_of(const Config& config, const StageSpec& spec, kernels::Backend& backend,
                          std::int64_t workers) {
  const StageMemory memory = stage_memory(config, spec, backend);
  const std::int64_t elements = StageTensors(spec).elements();
  const bool holds_messages = !backend.own_memory();
  StageNeeds needs;
  needs.serving_bytes = memory.fixed_bytes();
  needs.owned_bytes = memory.owned_bytes;
  if (config.swarm.has_owners()) {
    if (workers == 1 && !may_have_fellows(config, workers)) needs.owned_bytes = memory.owned(1);
    if (holds_messages) needs.serving_bytes += weights_on_their_way(elements, workers);
  }
  if (may_have_fellows(config, workers)) needs.serving_bytes += memory.gradient_bytes;
  if (holds_messages) needs.serving_bytes += waiting_bytes(config, spec, workers);
  if (config.compute.recompute == Recompute::never) {
    needs.serving_bytes += most_open_at_a_peer(config, workers) * memory.activation_slot_bytes;
  }
  needs.learning_bytes = needs.serving_bytes + elements * static_cast<std::int64_t>(sizeof(float));
  if (holds_messages) needs.learning_bytes += learned_bytes(config, spec);
  return needs;
}

}  // namespace

MemoryNeeds memory_needs(const Config& config, const std::vector<StageSpec>& specs,
                         kernels::Backend& backend, std::int64_t workers) {
  MemoryNeeds needs;
  if (specs.empty()) return needs;
  needs.peer_bytes = peer_memory(config, specs, backend).kernels_bytes;
  if (!backend.own_memory()) needs.peer_bytes += bytes_on_their_way(config, specs, workers);
  for (const StageSpec& spec : specs) {
    needs.stages.push_back(stage_needs_of(config, spec, backend, workers));
  }
  return needs;
}

std::int64_t kept_for_repairs_bytes(const Config& config) {
  if (config.swarm.recovery != Recovery::lineage || config.swarm.has_pipelines()) return 0;
  if (config.swarm.cache_memory_gb > 0) {
    return static_cast<std::int64_t>(config.swarm.cache_memory_gb * 1e9);
  }
  const std::int64_t open = config.train.microbatches * config.train.delay();
  // An output and an input gradient for each boundary.
  return boundary_bytes(config).both() * open * (config.swarm.stages - 1);
}

std::optional<HostMemory> host_memory(const Config& config, const std::vector<StageSpec>& specs,
                                      const kernels::Backend& backend, std::int64_t workers,
                                      const Sharers& sharers) {
  if (!backend.own_memory()) return std::nullopt;
  HostMemory host;
  host.share_bytes = share_of_host_bytes(sharers);
  host.messages_bytes = bytes_on_their_way(config, specs, workers);
  std::int64_t learned = 0;
  for (const StageSpec& spec : specs) {
    host.messages_bytes += waiting_bytes(config, spec, workers);
    if (config.swarm.has_owners()) {
      host.messages_bytes += weights_on_their_way(StageTensors(spec).elements(), workers);
    }
    learned = std::max(learned, learned_bytes(config, spec));
  }
  if (may_have_fellows(config, workers)) host.messages_bytes += learned;
  host.kept_bytes = kept_for_repairs_bytes(config);
  if (host.share_bytes) {
    host.kept_bytes =
        std::min(host.kept_bytes, kept_share(*host.share_bytes - host.messages_bytes));
  }
  return host;
}

std::int64_t activation_slots(const Config& config, const std::vector<StageSpec>& stages,
                              kernels::Backend& backend, std::int64_t workers,
                              const Sharers& sharers) {
  const bool always = config.compute.recompute == Recompute::always;
  if (always || config.swarm.method == Method::gpipe) return 0;
  const std::int64_t in_flight = most_open_at_a_peer(config, workers);
  const PeerMemory memory = peer_memory(config, stages, backend);
  if (config.compute.recompute == Recompute::never || memory.activation_slot_bytes == 0)
    return in_flight;
  const std::optional<std::int64_t> budget = budget_bytes(config, backend, sharers);
  if (!budget) return in_flight;
  const MemoryNeeds needs = memory_needs(config, stages, backend, workers);
  std::int64_t left_bytes = *budget - needs.peer_bytes;
  for (const StageNeeds& stage : needs.stages) left_bytes -= stage.serving_bytes_of(workers);
  if (!backend.own_memory()) {
    left_bytes -= std::min(kept_for_repairs_bytes(config), kept_share(left_bytes));
  }
  return std::clamp<std::int64_t>(left_bytes / memory.activation_slot_bytes, 0, in_flight);
}

}  // namespace swarmpi
