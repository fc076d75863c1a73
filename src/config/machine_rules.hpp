#pragma once
// Rules of the tables that describe machines: devices, links, sites, routes, and which peers have
// them.

#include <optional>

#include "config/config.hpp"
#include "config/rules.hpp"

namespace swarmpi {

/// Whether these peers compute with other kernels than all.
bool kernels_differ(PeerKernels of_peers, Kernels of_all);

/// The first rule that these tables break.
std::optional<BrokenRule> broken_rule_of_machines(const Config& config);

}  // namespace swarmpi
