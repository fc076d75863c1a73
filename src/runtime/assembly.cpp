#include "runtime/assembly.hpp"

#include <algorithm>
#include <numeric>

#include "core/machine.hpp"
#include "core/text.hpp"
#include "model/boundary.hpp"
#include "model/cost.hpp"
#include "protocol/method/layout.hpp"

namespace swarmpi {
Status load_stage(const Checkpoint& checkpoint, StageModel& stage) {
  for (const TensorState& tensor : stage.state()) {
    if (Status status = checkpoint.read(tensor); !status.ok()) return status;
  }
  stage.loaded(Step(checkpoint.head().state.step));
  return {};
}

RunPlan make_plan(const Config& config, const std::vector<StageSpec>& specs, std::int64_t workers) {
  RunPlan plan;
  plan.train = config.train;
  plan.swarm = config.swarm;
  plan.faults_at = config.faults_at;
  plan.tokens_per_microbatch = config.train.microbatch_size * config.model.context;
  plan.validate_every = config.output.validate_every;
  plan.checkpoint_every = config.output.checkpoint_every;
  plan.job_timeout_s = config.compute.job_timeout_s;
  plan.storage_timeout_s = config.output.storage_timeout_s;
  plan.window = source_window(config.swarm, workers);
  for (const TensorInfo& tensor : model_tensors(config)) {
    plan.tensor_names.push_back(tensor.name);
    plan.tensor_elements.push_back(tensor.count());
  }
  for (const StageSpec& stage : specs) {
    std::vector<std::int32_t> ids;
    for (const TensorInfo& tensor : stage.tensors) ids.push_back(tensor.id);
    plan.stage_tensors.push_back(std::move(ids));
    plan.stage_costs.push_back(stage.flops_per_token);
  }
  return plan;
}

Result<StartedStages> make_stages(const Config& config, const std::vector<StageSpec>& served,
                                  kernels::Backend& backend,
                                  const std::optional<Checkpoint>& checkpoint, std::int64_t workers,
                                  std::int64_t peers_on_host) {
  const std::int64_t slots = activation_slots(config, served, backend, workers, peers_on_host);
  StartedStages started;
  for (const StageSpec& spec : served) {
    StageModel& stage =
        *started.stages.emplace_back(std::make_unique<StageModel>(config, spec, backend, slots));
    if (!checkpoint) {
      stage.initialize();
      continue;
    }
    if (Status status = load_stage(*checkpoint, stage); !status.ok()) return status;
    const std::vector<std::uint64_t> hashes = stage.tensor_hashes();
    started.hashes[StageId(spec.stage)] =
        std::accumulate(hashes.begin(), hashes.end(), std::uint64_t{0});
  }
  return started;
}

StageFactory stage_factory(const Config& config, const std::vector<StageSpec>& specs,
                           kernels::Backend& backend, std::int64_t workers,
                           std::int64_t peers_on_host) {
  const auto spec_of = [&specs](StageId stage) -> const StageSpec& {
    return specs.at(static_cast<std::size_t>(stage.value));
  };
  return {[&config, &backend, spec_of](StageId stage) {
            return std::make_unique<StageModel>(config, spec_of(stage), backend, 0);
          },
          [&config, &backend, spec_of, workers, peers_on_host](StageId stage) {
            return activation_slots(config, {spec_of(stage)}, backend, workers, peers_on_host);
          }};
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

namespace {

/// With everything recomputed that can be.
double least_memory_bytes(const Config& config, const std::vector<StageSpec>& served,
                          kernels::Backend& backend, std::int64_t workers) {
  const PeerMemory memory = peer_memory(config, served, backend);
  auto needed_bytes = static_cast<double>(memory.fixed_bytes);
  if (config.compute.recompute == Recompute::never) {
    needed_bytes += static_cast<double>(memory.activation_slot_bytes) *
                    static_cast<double>(activation_slots(config, served, backend, workers));
  }
  return needed_bytes;
}

}  // namespace

Status refuse_too_large(const Config& config, const std::vector<StageSpec>& specs,
                        kernels::Backend& backend, std::int64_t workers) {
  const double needed_bytes = least_memory_bytes(config, specs, backend, workers);
  const double allowed_bytes = config.compute.memory_gb * 1e9;
  if (allowed_bytes > 0 && needed_bytes > allowed_bytes) {
    return Status::bad_input("compute.memory_gb: this model needs at least " +
                             readable_bytes(needed_bytes) + ", " + readable_bytes(allowed_bytes) +
                             " are allowed");
  }
  const auto machine_bytes = static_cast<double>(this_machine().memory_bytes);
  if (needed_bytes <= machine_bytes) return {};
  return Status::bad_input("[model]: this model needs at least " + readable_bytes(needed_bytes) +
                           " of memory, this machine has " + readable_bytes(machine_bytes));
}

Status refuse_moves_too_large(const Config& config, std::vector<StageSpec> specs,
                              kernels::Backend& backend, std::int64_t workers) {
  if (config.swarm.rebalance == Rebalance::none || config.compute.memory_gb <= 0) return {};
  if (specs.size() < 2) return {};
  const auto larger = [&](const StageSpec& a, const StageSpec& b) {
    return least_memory_bytes(config, {a}, backend, workers) >
           least_memory_bytes(config, {b}, backend, workers);
  };
  std::partial_sort(specs.begin(), specs.begin() + 2, specs.end(), larger);
  specs.resize(2);
  // Both have other replicas: one that stays, and the one that is learned from.
  const double needed_bytes =
      least_memory_bytes(config, specs, backend, workers) +
      static_cast<double>(peer_memory(config, specs, backend).gradient_bytes);
  const double allowed_bytes = config.compute.memory_gb * 1e9;
  if (needed_bytes <= allowed_bytes) return {};
  return Status::bad_input(
      "swarm.rebalance: a peer that moves from stage " + std::to_string(specs[0].stage) +
      " to stage " + std::to_string(specs[1].stage) + " holds both for a while, at least " +
      readable_bytes(needed_bytes) + "; compute.memory_gb allows " + readable_bytes(allowed_bytes));
}

std::int64_t checkpoint_bytes(const Config& config) {
  const std::int64_t per_parameter = 4 * (config.train.delay() + 2);
  return 2 * parameter_count(config) * per_parameter;
}

}  // namespace swarmpi
