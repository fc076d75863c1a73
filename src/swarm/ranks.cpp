#include "swarm/ranks.hpp"

#include <set>
#include <string>

namespace swarmpi {
namespace {

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Status check_pins(const SwarmConfig& swarm, std::int64_t workers) {
  const auto pins = static_cast<std::int64_t>(swarm.pins.size());
  if (pins == 0) return {};
  const std::string there = "there " + std::string(workers == 1 ? "is " : "are ") +
                            counted(workers, "worker") +
                            " (ranks less swarm.spares = " + std::to_string(swarm.spares) + ")";
  if (pins > workers) {
    return Status::bad_input("swarm.pins: " + counted(pins, "peer") + " pinned, but " + there);
  }
  if (workers < swarm.stages) {
    return Status::bad_input("swarm.pins: pinned peers serve one stage each, but " + there +
                             " for swarm.stages = " + std::to_string(swarm.stages));
  }
  const std::set<std::int64_t> served(swarm.pins.begin(), swarm.pins.end());
  const std::int64_t empty = swarm.stages - static_cast<std::int64_t>(served.size());
  if (empty <= workers - pins) return {};
  std::int64_t stage = 0;
  while (served.contains(stage)) ++stage;
  return Status::bad_input("swarm.pins: " + counted(empty, "stage") + ", the first of them " +
                           std::to_string(stage) + ", left for " +
                           counted(workers - pins, "worker") + " that no pin names");
}

}  // namespace

Status check_ranks(const Config& config, std::int64_t ranks) {
  const std::int64_t spares = config.swarm.spares;
  if (ranks <= spares) {
    return Status::bad_input("swarm.spares: not enough ranks: " + counted(spares, "spare") +
                             " of " + counted(ranks, "rank") + " would leave no worker");
  }
  for (std::size_t i = 0; i < config.faults_at.size(); ++i) {
    const std::int64_t peer = config.faults_at[i].peer;
    if (peer < ranks) continue;
    return Status::bad_input("faults.at[" + std::to_string(i) + "]: there is no peer " +
                             std::to_string(peer) + " among " + counted(ranks, "rank"));
  }
  return check_pins(config.swarm, ranks - spares);
}

View first_view(const Config& config, std::int64_t ranks, const std::vector<double>& stage_costs) {
  std::vector<PeerId> workers, spares;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    auto& group = rank < ranks - config.swarm.spares ? workers : spares;
    group.emplace_back(static_cast<std::int32_t>(rank));
  }
  return deal_peers(workers, spares, stage_costs, config.swarm.pins);
}

}  // namespace swarmpi
