#pragma once
// Random swarms in which peers die at random and at chosen moments. Whatever is drawn, the run must
// end, and be that of one peer alone.

#include <cstdint>
#include <optional>

#include "torture/swarm_check.hpp"

namespace swarmpi {

struct TortureRules {
  std::optional<bool> delayed;  ///< updates; none: drawn
  FaultOptions faults;
  bool real = false;  ///< real kernels on tiny models
};

/// What this seed stands for: a swarm and its faults.
RandomSwarm draw_tortured_swarm(std::uint64_t seed, const TortureRules& rules = {});

/// Draws a swarm and checks it.
SwarmVerdict check_torture(std::uint64_t seed, const TortureRules& rules = {},
                           Observer* trace = nullptr);

}  // namespace swarmpi
