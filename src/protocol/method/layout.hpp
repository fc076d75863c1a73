#pragma once
// swarm.method: how the work is laid out over the peers. The methods differ in who serves what
// (this file), in the wiring (wiring/router.hpp), in the order of a peer's passes (job_order.hpp),
// and in the answer to a death (Leader::lost); all else is the same code.

#include <cstdint>
#include <limits>
#include <vector>

#include "config/config.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/reduction/chunks.hpp"

namespace swarmpi {

/// Who serves what by the deck's method. SWARM: deal_peers(); all others: deal_pipelines().
/// REQUIRES the same as these; no `pins` with pipelines.
View lay_out(Method method, const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
             const std::vector<double>& stage_costs, const std::vector<std::int64_t>& pins = {});

/// The view in which the workers form static pipelines of one peer a stage, as many as there can
/// be; neighbouring ids are in one pipeline, and workers beyond them serve none, as spares do. With
/// fewer workers than stages there is one pipeline, whose peers serve neighbouring stages each.
/// REQUIRES: a worker and a stage.
View deal_pipelines(const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
                    const std::vector<double>& stage_costs);

/// What the peer owns of a stage: all, but where each replica owns a range and it is one of them.
Ownership ownership_of(const SwarmConfig& swarm, const View& view, PeerId peer, StageId stage);

/// A peer's part of a static pipeline. Microbatch i of a step goes through the pipeline i mod
/// `pipelines`: the peers at that place among the replicas of each stage.
struct PipelineShare {
  std::int64_t pipeline = 0;   ///< the peer's own
  std::int64_t pipelines = 1;  ///< of the view

  /// How many of this many microbatches go through this pipeline.
  std::int64_t of(std::int64_t microbatches) const {
    return (microbatches + pipelines - 1 - pipeline) / pipelines;
  }
};

/// A window that never closes.
inline constexpr std::int64_t kNoWindow = std::numeric_limits<std::int64_t>::max();

/// Microbatches that the source has in flight at most. Static pipelines have no window there:
/// "1f1b" has one at each peer, which need not wait for a report and an issue.
std::int64_t source_window(const SwarmConfig& swarm, std::int64_t workers);

/// Training microbatches that a peer may have begun and not finished at a time.
std::int64_t most_open_at_a_peer(const Config& config, std::int64_t workers);

}  // namespace swarmpi
