#pragma once
// Makes a failing swarm smaller, so that a person can follow what goes wrong.

#include <cstdint>
#include <functional>

#include "torture/random_swarm.hpp"

namespace swarmpi {

/// Removes faults, then steps, microbatches, peers, stages and other features, as long as the swarm
/// still fails. Calls `fails` at most `most_trials` times. REQUIRES: `swarm` fails.
RandomSwarm shrink(const RandomSwarm& swarm, const std::function<bool(const RandomSwarm&)>& fails,
                   std::int64_t most_trials = 400);

}  // namespace swarmpi
