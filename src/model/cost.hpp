#pragma once
// FLOPs and memory, by formula: for the partition, `swarmpi check`, the choice of `recompute =
// "auto"`.

#include <cstdint>
#include <vector>

#include "config/config.hpp"
#include "model/stage_tensors.hpp"
#include "model/tensors.hpp"

namespace swarmpi {

/// Model FLOPs of one token, forward and backward: 72 L d^2 + 6 V d + 6 L T d at ffn = 4 d, in
/// general by layer.
double model_flops_per_token(const ModelConfig& model);
double layer_flops_per_token(const ModelConfig& model);
double head_flops_per_token(const ModelConfig& model);

/// Bytes of the form in which the backend multiplies by one version of these weights, as far as it
/// is known here: one copy in the precision of the products.
std::int64_t multiplied_bytes(const ModelConfig& model, const StageTensors& tensors);

struct StageMemory {
  std::int64_t state_bytes = 0;  ///< weights (d versions, prepared copies), moments
  std::int64_t sums_bytes = 0;   ///< integers of d steps, reduced gradient
  std::int64_t activation_slot_bytes =
      0;                           ///< of one kept microbatch; 0 in the last stage: it keeps none
  std::int64_t scratch_bytes = 0;  ///< activations of the microbatch at work, gradients
};
StageMemory stage_memory(const Config& config, const StageSpec& spec);

/// Microbatches whose activations a peer that serves `stages` keeps, by `compute.recompute` and
/// `compute.memory_gb` (0: half of the machine's memory). never: the whole window; always: none.
std::int64_t activation_slots(const Config& config, const std::vector<StageSpec>& stages);

}  // namespace swarmpi
