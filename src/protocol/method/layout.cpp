#include "protocol/method/layout.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace swarmpi {

View lay_out(Method method, const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
             const std::vector<double>& stage_costs, const std::vector<std::int64_t>& pins) {
  if (method == Method::swarm) return deal_peers(workers, spares, stage_costs, pins);
  SWARMPI_CHECK(pins.empty(), "nobody is pinned in a static pipeline");
  return deal_pipelines(workers, spares, stage_costs);
}

View deal_pipelines(const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
                    const std::vector<double>& stage_costs) {
  const std::size_t stages = stage_costs.size();
  if (workers.size() < stages) return deal_peers(workers, spares, stage_costs);
  std::vector<PeerId> ordered = workers;
  std::sort(ordered.begin(), ordered.end());
  View view;
  for (const PeerId spare : spares) view.add(spare);
  const std::size_t serving = ordered.size() - ordered.size() % stages;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (i < serving) {
      view.serve(ordered[i], StageId(static_cast<std::int32_t>(i % stages)));
    } else {
      view.add(ordered[i]);
    }
  }
  return view;
}

Ownership ownership_of(const SwarmConfig& swarm, const View& view, PeerId peer, StageId stage) {
  if (!swarm.has_owners() || !view.serves(peer, stage)) return {};
  return {static_cast<std::int64_t>(view.place(peer, stage)), std::ssize(view.replicas(stage))};
}

std::int64_t source_window(const SwarmConfig& swarm, std::int64_t workers) {
  return swarm.has_pipelines() ? kNoWindow : swarm.in_flight(workers);
}

std::int64_t most_open_at_a_peer(const Config& config, std::int64_t workers) {
  const SwarmConfig& swarm = config.swarm;
  const std::int64_t microbatches = config.train.microbatches * config.train.delay();
  if (!swarm.has_pipelines()) return std::min(swarm.in_flight(workers), microbatches);
  const std::int64_t pipelines = std::max<std::int64_t>(workers / swarm.stages, 1);
  const std::int64_t share = PipelineShare{0, pipelines}.of(microbatches);
  return swarm.method == Method::one_f_one_b ? std::min(swarm.stages, share) : share;
}

}  // namespace swarmpi
