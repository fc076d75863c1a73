#include "model/cost.hpp"

#include <unistd.h>

#include <algorithm>

#include "model/activations.hpp"
#include "model/passes.hpp"

namespace swarmpi {
namespace {

// Both products of the backward pass cost what the forward one does; a multiply-add is two FLOPs.
constexpr double kFlopsPerWeight = 6;

double as_double(std::int64_t value) { return static_cast<double>(value); }

/// Elements from row to row as the native kernels pad them: whole cache lines, and clear of the
/// multiples of 512 bytes.
std::int64_t padded(std::int64_t columns, std::int64_t element_bytes) {
  const std::int64_t bytes = (columns * element_bytes + 63) / 64 * 64;
  return (bytes % 512 == 0 ? bytes + 64 : bytes) / element_bytes;
}

std::int64_t padded_columns(std::int64_t columns) {
  return padded(columns, static_cast<std::int64_t>(sizeof(float)));
}

std::int64_t machine_memory_bytes() { return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE); }

std::int64_t window(const Config& config) {
  return config.swarm.window > 0 ? config.swarm.window
                                 : std::max(2 * config.swarm.stages, config.swarm.peers);
}

}  // namespace

double layer_flops_per_token(const ModelConfig& model) {
  const double width = as_double(model.width);
  const double weights = 4 * width * width + 2 * width * as_double(model.hidden());
  return kFlopsPerWeight * weights + 6 * as_double(model.context) * width;  // causal attention
}

double head_flops_per_token(const ModelConfig& model) {
  return kFlopsPerWeight * as_double(model.vocab) * as_double(model.width);
}

double model_flops_per_token(const ModelConfig& model) {
  return as_double(model.layers) * layer_flops_per_token(model) + head_flops_per_token(model);
}

std::int64_t multiplied_bytes(const ModelConfig& model, const StageTensors& tensors) {
  const std::int64_t element = model.precision == "bf16" ? 2 : 4;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& info = tensors.info(i);
    if (is_multiplied_by(info.role)) sum += info.rows * padded(info.columns, element) * element;
  }
  return sum;
}

StageMemory stage_memory(const Config& config, const StageSpec& spec) {
  const StageShape shape(config, spec);
  const StageTensors tensors(spec);
  const std::int64_t delay = config.train.delay();
  const std::int64_t floats = tensors.elements() * static_cast<std::int64_t>(sizeof(float));
  Layout slot(nullptr, padded_columns);
  lay_out_activations(slot, shape);
  Layout work(nullptr, padded_columns);
  lay_out_work(work, shape, spec);

  StageMemory memory;
  memory.state_bytes = (delay + 2) * floats + delay * multiplied_bytes(config.model, tensors);
  memory.sums_bytes = delay * 2 * floats + floats;
  memory.activation_slot_bytes = spec.has_head ? 0 : slot.size_bytes();
  memory.scratch_bytes = slot.size_bytes() + work.size_bytes();
  return memory;
}

std::int64_t activation_slots(const Config& config, const std::vector<StageSpec>& stages) {
  if (config.compute.recompute == "always") return 0;
  if (config.compute.recompute == "never") return window(config);
  std::int64_t fixed_bytes = 0;
  std::int64_t slot_bytes = 0;
  for (const StageSpec& spec : stages) {
    const StageMemory memory = stage_memory(config, spec);
    fixed_bytes += memory.state_bytes + memory.sums_bytes + memory.scratch_bytes;
    slot_bytes += memory.activation_slot_bytes;
  }
  const std::int64_t budget_bytes = config.compute.memory_gb > 0
                                        ? static_cast<std::int64_t>(config.compute.memory_gb * 1e9)
                                        : machine_memory_bytes() / 2;
  if (slot_bytes == 0) return window(config);
  return std::clamp<std::int64_t>((budget_bytes - fixed_bytes) / slot_bytes, 0, window(config));
}

}  // namespace swarmpi
