#pragma once
// A swarm's run is compared with that of one peer which serves the whole model as one stage.

#include <cstdint>
#include <string>
#include <vector>

#include "torture/random_swarm.hpp"

namespace swarmpi {

struct SwarmVerdict {
  std::string fault;                     ///< what differed, or was against the rules; "" if nothing
  ExitStatus status = ExitStatus::good;  ///< how the first part ended
  std::int64_t parts = 1;                ///< stops and resumes, and the end
  std::int64_t events = 0;               ///< of all parts, without the peer it is compared with
  std::int64_t jobs = 0;
  std::vector<DeathCost> deaths;  ///< of all parts
  std::string killed;             ///< what happened in the last part
  FaultCounts faults{};           ///< of all parts
  MomentCounts moments{};         ///< likewise
  bool delayed = false;           ///< updates
  bool shadowed = false;          ///< in some part there were shadows
  std::int64_t joined = 0;        ///< peers that came later and were let in, in all parts
};

/// Runs the swarm to its end, by other swarms after each stop or lost stage, and compares it with
/// one peer alone, whom nothing disturbs.
SwarmVerdict check_swarm(const RandomSwarm& swarm, Observer* trace = nullptr);

}  // namespace swarmpi
