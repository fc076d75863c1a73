#pragma once
// From a checked deck to what a run is made of: the protocol's plan, and stages with their state.

#include <memory>
#include <vector>

#include "data/dataset.hpp"
#include "io/checkpoint.hpp"
#include "model/stage_model.hpp"
#include "swarm/plan.hpp"

namespace swarmpi {

using Stages = std::vector<std::unique_ptr<StageModel>>;

RunPlan make_plan(const Config& config, const Dataset& data, const std::vector<StageSpec>& specs);

/// Stages with initial values, or with the checkpoint's state, whose hash is verified.
Result<Stages> make_stages(const Config& config, const std::vector<StageSpec>& specs,
                           kernels::Backend& backend, const std::optional<Checkpoint>& checkpoint);

/// The least memory that the deck needs must be there: nothing kept but what cannot be recomputed.
Status refuse_too_large(const Config& config, const std::vector<StageSpec>& specs,
                        kernels::Backend& backend);

/// Room that checkpoints take on disk: one, and another while the first is still there.
std::int64_t checkpoint_bytes(const Config& config);

}  // namespace swarmpi
