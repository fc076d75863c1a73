#include "config/ranks.hpp"

#include <set>
#include <string>

#include "core/text.hpp"

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

// A fault happens to a peer that is there; a bit flips once, where there is a state to flip it in.
Status check_faults(const Config& config, std::int64_t ranks) {
  std::set<std::int64_t> flipped;
  for (std::size_t i = 0; i < config.faults_at.size(); ++i) {
    const FaultAt& fault = config.faults_at[i];
    const auto peer = static_cast<long long>(fault.peer);
    const auto refuse = [&](const char* text) {
      return Status::bad_input(format("faults.at[%zu]: peer %lld %s", i, peer, text));
    };
    if (fault.peer >= ranks) {
      return Status::bad_input(format("faults.at[%zu]: there is no peer %lld among %s", i, peer,
                                      counted(ranks, "rank").c_str()));
    }
    if (fault.peer >= ranks - config.swarm.spares) {
      return refuse("is a spare, without work or state: a trace can kill it");
    }
    if (fault.event != "flip") continue;
    if (!flipped.insert(fault.peer).second) return refuse("has a bit flipped already");
  }
  return {};
}

}  // namespace

Status check_ranks(const Config& config, std::int64_t ranks) {
  const std::int64_t spares = config.swarm.spares;
  if (ranks <= spares) {
    return Status::bad_input("swarm.spares: not enough ranks: " + counted(spares, "spare") +
                             " of " + counted(ranks, "rank") + " would leave no worker");
  }
  if (Status status = check_faults(config, ranks); !status.ok()) return status;
  return check_pins(config.swarm, ranks - spares);
}

}  // namespace swarmpi
