#pragma once
// Rules of the tables that describe machines: devices, links, sites, routes, and which peers have
// them.

#include <optional>
#include <string>

#include "config/config.hpp"
#include "config/rules.hpp"

namespace swarmpi {

/// Whether these peers compute with other kernels than all.
bool kernels_differ(PeerKernels of_peers, Kernels of_all);

/// A rate that bounds a line which several peers share: of a site, or of a route between sites.
struct CommonRate {
  std::string id;  ///< "sites.NAME" or "routes[ROW]"
  std::string key;
};
/// The first such rate of a site that has peers, or of a route between two of these.
std::optional<CommonRate> common_rate(const Config& config);

/// The first rule that these tables break.
std::optional<BrokenRule> broken_rule_of_machines(const Config& config);

}  // namespace swarmpi
