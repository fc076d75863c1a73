#pragma once
// From a checked deck to what a run is made of: the protocol's plan, and stages with their state.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "model/stage_model.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

using Stages = std::vector<std::unique_ptr<StageModel>>;

// `workers`: how many peers serve stages.

/// Without validation, which is a matter of the data.
RunPlan make_plan(const Config& config, const std::vector<StageSpec>& specs, std::int64_t workers);

/// The stages that a peer serves, ready to run.
struct StartedStages {
  Stages stages;
  std::vector<std::uint64_t> hashes;  ///< state hash of each, where loaded; else empty
};
/// With initial values, or with the checkpoint's state: verify_loaded() is to follow.
Result<StartedStages> make_stages(const Config& config, const std::vector<StageSpec>& served,
                                  kernels::Backend& backend,
                                  const std::optional<Checkpoint>& checkpoint, std::int64_t workers,
                                  std::int64_t peers_on_host);
/// A stage that this peer has not served so far, of undefined content. `first`: it has no other;
/// else it recomputes its activations, for what memory there is has been given to those.
std::unique_ptr<StageModel> make_empty_stage(const Config& config,
                                             const std::vector<StageSpec>& specs, StageId stage,
                                             kernels::Backend& backend, bool first,
                                             std::int64_t workers, std::int64_t peers_on_host);
/// What is sent from stage to stage for a microbatch, either way: (B, T, C) of fp32.
std::size_t boundary_bytes(const Config& config);
/// What a peer may keep of what it sent, for repairs: as much as the deck gives memory for; by
/// default all that can be open at a time.
std::int64_t kept_for_repairs_bytes(const Config& config);
/// Whether what was loaded is what the checkpoint was made of. `stage_hashes`: of all stages, each
/// once, by whichever peers hold them.
Status verify_loaded(const Checkpoint& checkpoint, std::span<const std::uint64_t> stage_hashes);

/// The least memory that the deck needs must be there: nothing kept but what cannot be recomputed.
Status refuse_too_large(const Config& config, const std::vector<StageSpec>& specs,
                        kernels::Backend& backend, std::int64_t workers);

/// Room that checkpoints take on disk: one, and another while the first is still there.
std::int64_t checkpoint_bytes(const Config& config);

}  // namespace swarmpi
