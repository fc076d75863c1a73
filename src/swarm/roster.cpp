#include "swarm/roster.hpp"

#include <algorithm>

namespace swarmpi {

std::vector<PeerId> Roster::all() const {
  std::vector<PeerId> peers = workers;
  peers.insert(peers.end(), spares.begin(), spares.end());
  std::sort(peers.begin(), peers.end());
  return peers;
}

Roster make_roster(std::int64_t ranks, std::int64_t spares) {
  Roster roster;
  for (std::int32_t id = 0; id < ranks; ++id) {
    (id < ranks - spares ? roster.workers : roster.spares).push_back(PeerId(id));
  }
  return roster;
}

View first_view(const Config& config, std::int64_t ranks, const std::vector<double>& stage_costs) {
  const Roster roster = make_roster(ranks, config.swarm.spares);
  return deal_peers(roster.workers, roster.spares, stage_costs, config.swarm.pins);
}

}  // namespace swarmpi
