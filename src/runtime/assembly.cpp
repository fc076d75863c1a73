#include "runtime/assembly.hpp"

#include <numeric>
#include <utility>

#include "core/machine.hpp"
#include "model/cost.hpp"
#include "protocol/method/layout.hpp"

namespace swarmpi {
namespace {

std::optional<Ownership> owned_by(const Config& config, const Ownership& ownership) {
  return config.swarm.has_owners() ? std::optional(ownership) : std::nullopt;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& hashes) {
  return std::accumulate(hashes.begin(), hashes.end(), std::uint64_t{0});
}

}  // namespace

Status load_stage(const Checkpoint& checkpoint, StageModel& stage) {
  if (Status whole = checkpoint.prove(stage.state()); !whole.ok()) return whole;
  for (const TensorState& tensor : stage.state()) {
    if (Status status = checkpoint.read(tensor, stage.backend()); !status.ok()) return status;
  }
  stage.loaded(Step(checkpoint.head().state.step));
  return {};
}

Payload::Allocate payload_memory(kernels::Backend& backend) {
  if (!backend.own_memory()) return nullptr;
  return [&backend](std::size_t size_bytes) { return backend.allocate_host(size_bytes); };
}

RunPlan make_plan(const Config& config, const std::vector<StageSpec>& specs, std::int64_t workers) {
  RunPlan plan;
  plan.train = config.train;
  plan.swarm = config.swarm;
  plan.faults_at = config.faults_at;
  plan.tokens_per_microbatch = config.train.microbatch_size * config.model.context;
  plan.validate_every = config.output.validate_every;
  plan.checkpoint_every = config.output.checkpoint_every;
  plan.checkpoint_every_s = config.output.checkpoint_every_s;
  plan.checkpoints_kept = config.output.keep;
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
                                  std::int64_t peers_on_host, const Ownership& ownership) {
  StartedStages started;
  if (config.compute.kernels == Kernels::none) return started;
  const std::int64_t slots = activation_slots(config, served, backend, workers, {peers_on_host});
  for (const StageSpec& spec : served) {
    StageModel& stage = *started.stages.emplace_back(
        std::make_unique<StageModel>(config, spec, backend, slots, owned_by(config, ownership)));
    if (!checkpoint) {
      if (Status status = stage.initialize(); !status.ok()) return status;
      continue;
    }
    if (Status status = load_stage(*checkpoint, stage); !status.ok()) return status;
    const StageId id(spec.stage);
    started.hashes[id] = sum_of(stage.tensor_hashes());
    if (stage.has_owners()) started.weight_hashes[id] = sum_of(stage.weight_hashes());
  }
  return started;
}

StageFactory stage_factory(const Config& config, const std::vector<StageSpec>& specs,
                           kernels::Backend& backend, std::int64_t workers,
                           std::int64_t peers_on_host) {
  const auto spec_of = [&specs](StageId stage) -> const StageSpec& {
    return specs.at(static_cast<std::size_t>(stage.value));
  };
  return {[&config, &backend, spec_of](StageId stage, const Ownership& ownership) {
            return std::make_unique<StageModel>(config, spec_of(stage), backend, 0,
                                                owned_by(config, ownership));
          },
          [&config, &backend, spec_of, workers, peers_on_host](StageId stage) {
            return activation_slots(config, {spec_of(stage)}, backend, workers, {peers_on_host});
          },
          [&config, &backend, spec_of](StageId stage, const Ownership& ownership,
                                       const std::optional<Ownership>& held) {
            const StageMemory memory = stage_memory(config, spec_of(stage), backend);
            const std::int64_t owned = memory.owned(ownership.owners);
            const std::int64_t more = held ? owned - memory.owned(held->owners)
                                           : memory.fixed_bytes() + memory.gradient_bytes + owned;
            const std::optional<kernels::OwnMemory> device = backend.own_memory();
            return more <=
                   (device ? static_cast<std::int64_t>(device->free_bytes) : free_memory_bytes());
          }};
}

Result<std::unique_ptr<NcclCollectives>> make_collectives(const Config& config, PeerId self,
                                                          const kernels::Backend& backend,
                                                          JobExecutor& executor,
                                                          CollectiveResults& results,
                                                          Inbox& inbox) {
  if (!config.swarm.has_collectives()) return std::unique_ptr<NcclCollectives>();
  const std::optional<int> device = backend.device();
  if (!device) return Status::failed("this peer does not compute on a GPU");
  Result<CollectiveLibrary> nccl = nccl_on(*device, kernels::ranks_on_cuda_device());
  if (!nccl.ok()) return nccl.status();
  executor.take_from(results);
  return std::make_unique<NcclCollectives>(
      self, std::move(nccl).value(),
      [&executor](StageId stage, Step step) { return executor.arrays_for_collective(stage, step); },
      results, inbox);
}

std::int64_t checkpoint_bytes(const Config& config) {
  if (config.compute.kernels == Kernels::none) return 0;
  const std::int64_t per_parameter = 4 * (config.train.delay() + 2);
  return 2 * parameter_count(config) * per_parameter;
}

}  // namespace swarmpi
