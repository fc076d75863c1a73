#pragma once
// What a run is assembled from, given a checked deck: the protocol's plan, stages with their state,
// and the memory and disk space that they need.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "model/stage_model.hpp"
#include "protocol/run_plan.hpp"
#include "runtime/job_executor.hpp"
#include "runtime/nccl_collectives.hpp"

namespace swarmpi {

using Stages = std::vector<std::unique_ptr<StageModel>>;

// In all of these, `workers` is the number of peers that serve stages.

/// The protocol's plan; the caller adds what depends on the data: the validation microbatches.
RunPlan make_plan(const Config& config, const std::vector<StageSpec>& specs, std::int64_t workers);

/// The stages that a peer serves, ready to run.
struct StartedStages {
  Stages stages;
  /// Where loaded, of each the hash of its state: of what this peer owns of it; else empty.
  std::map<StageId, std::uint64_t> hashes;
  std::map<StageId, std::uint64_t>
      weight_hashes;  ///< of its weights, where each replica owns a range
};
/// With initial values, or with the checkpoint's state; then the caller must compare the hashes of
/// all stages with the checkpoint's.
/// `ownership`: what the peer has of their moments.
Result<StartedStages> make_stages(const Config& config, const std::vector<StageSpec>& served,
                                  kernels::Backend& backend,
                                  const std::optional<Checkpoint>& checkpoint, std::int64_t workers,
                                  std::int64_t peers_on_host, const Ownership& ownership = {});
/// How a peer comes to further stages. Where it has several all recompute their activations. A
/// stage that this machine has no memory left for is not made. REQUIRES: all but the counts outlive
/// it.
StageFactory stage_factory(const Config& config, const std::vector<StageSpec>& specs,
                           kernels::Backend& backend, std::int64_t workers,
                           std::int64_t peers_on_host);
/// Makes the stage what it was after the checkpoint's step; the run that wrote the checkpoint may
/// have cut the model into other stages. Errors: bad_input, where a tensor is missing or of another
/// shape.
Status load_stage(const Checkpoint& checkpoint, StageModel& stage);

/// Where a peer's payloads lie: where the backend's memory is not the host's, in memory that it
/// copies fast. REQUIRES: the backend outlives the pool.
Payload::Allocate payload_memory(kernels::Backend& backend);

/// A peer's part in the collectives of its stages, which the executor takes results from; null
/// where the deck has none. Errors: failed, with why there can be none here: all goes point to
/// point then. REQUIRES: backend, executor, results and inbox outlive it.
Result<std::unique_ptr<NcclCollectives>> make_collectives(const Config& config, PeerId self,
                                                          const kernels::Backend& backend,
                                                          JobExecutor& executor,
                                                          CollectiveResults& results, Inbox& inbox);

/// What checkpoints take on disk: two, for the old one is removed when the new one is complete.
std::int64_t checkpoint_bytes(const Config& config);

}  // namespace swarmpi
