#pragma once
// The part of `swarmpi check` that depends on the number of peers.

#include <string>
#include <vector>

#include "config/config.hpp"
#include "kernels/backend.hpp"
#include "model/tensors.hpp"

namespace swarmpi {

/// Who serves what on `swarm.peers` ranks, the window, and what the largest peer takes.
void describe_peers(const Config& config, const std::vector<StageSpec>& stages,
                    kernels::Backend& backend, std::vector<std::string>& lines);

}  // namespace swarmpi
