#include "hardware/common_lines.hpp"

namespace swarmpi {

std::vector<double> common_mbps(const Config& config) {
  std::vector<double> mbps;
  for (const SiteConfig& site : config.sites) {
    mbps.push_back(site.up_mbps);
    mbps.push_back(site.down_mbps);
  }
  for (const RouteConfig& route : config.routes) mbps.insert(mbps.end(), 2, route.mbps);
  return mbps;
}

}  // namespace swarmpi
