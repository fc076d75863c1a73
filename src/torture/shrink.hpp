#pragma once
// Makes a swarm that fails smaller, for a person to read what goes wrong.

#include <cstdint>
#include <functional>

#include "torture/random_swarm.hpp"

namespace swarmpi {

/// Leaves out kills, then steps, microbatches, peers, stages and everything else, as long as the
/// swarm still fails. Asks at most `most_trials` times. REQUIRES: `swarm` fails.
RandomSwarm shrink(const RandomSwarm& swarm, const std::function<bool(const RandomSwarm&)>& fails,
                   std::int64_t most_trials = 400);

}  // namespace swarmpi
