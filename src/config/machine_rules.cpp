#include "config/machine_rules.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "config/suggest.hpp"
#include "config/toml_text.hpp"

namespace swarmpi {
namespace {

using Broken = std::optional<BrokenRule>;

template <class Row>
std::vector<std::string_view> names_in(const std::vector<Row>& rows) {
  std::vector<std::string_view> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

/// `given`, by the key of a row, is the NAME of a [table.NAME].
template <class Row>
Broken check_name(const std::string& given, const std::string& table, const std::vector<Row>& rows,
                  const std::string& key, const std::string& row_id) {
  const std::vector<std::string_view> names = names_in(rows);
  if (std::find(names.begin(), names.end(), given) != names.end()) return std::nullopt;
  const std::string list = row_id.substr(0, row_id.find('['));
  return BrokenRule{{row_id + "." + key, list},
                    list + "." + key + " = " + toml_string(given) + ": there is no [" + table +
                        "." + given + "]" + suggest_choice(given, names)};
}

/// A device has one speed.
Broken check_device(const DeviceConfig& device) {
  const std::string id = "devices." + device.name;
  if (device.gflops > 0 && device.peak_tflops > 0) {
    return BrokenRule{{id + ".peak_tflops", id},
                      id + " has gflops and peak_tflops: leave one of them out"};
  }
  if (device.peak_tflops > 0) return std::nullopt;
  if (device.gflops == 0) {
    return BrokenRule{{id + ".gflops", id}, id + " needs gflops or peak_tflops above 0"};
  }
  const DeviceConfig other;
  if (device.efficiency == other.efficiency && device.half_width == other.half_width) {
    return std::nullopt;
  }
  return BrokenRule{{id + ".efficiency", id + ".half_width", id},
                    id + ": efficiency and half_width are of peak_tflops, but gflops is given, "
                         "which is sustained"};
}

/// A route joins two sites of the deck, and no other route does.
Broken check_routes(const Config& config) {
  std::set<std::pair<std::string, std::string>> joined;
  for (std::size_t row = 0; row < config.routes.size(); ++row) {
    const std::vector<std::string>& sites = config.routes[row].sites;
    const std::string id = "routes[" + std::to_string(row) + "]";
    const auto refuse = [&](const std::string& why) {
      return BrokenRule{{id + ".sites", "routes"}, "routes.sites" + why};
    };
    if (sites.size() != 2 || sites[0] == sites[1]) {
      return refuse(" must name two sites: a route is between them");
    }
    for (const std::string& site : sites) {
      if (auto broken = check_name(site, "sites", config.sites, "sites", id)) return broken;
    }
    if (joined.insert(std::minmax(sites[0], sites[1])).second) continue;
    return refuse(": there is a route between " + toml_string(sites[0]) + " and " +
                  toml_string(sites[1]) + " already: one is for both directions");
  }
  return std::nullopt;
}

/// A row of [[peers]] says something, of what the deck has; other kernels only where they may be.
Broken check_peers(const Config& config, const PeersConfig& peers, const std::string& id) {
  if (peers.device.empty() && peers.link.empty() && peers.site.empty() &&
      peers.kernels == PeerKernels::as_all) {
    return BrokenRule{{id + ".device", "peers"},
                      "peers: names neither a device, a link, a site nor kernels"};
  }
  if (!peers.device.empty()) {
    auto broken = check_name(peers.device, "devices", config.devices, "device", id);
    if (broken) return broken;
  }
  if (!peers.link.empty()) {
    auto broken = check_name(peers.link, "links", config.links, "link", id);
    if (broken) return broken;
  }
  if (!peers.site.empty()) {
    auto broken = check_name(peers.site, "sites", config.sites, "site", id);
    if (broken) return broken;
  }
  if (!kernels_differ(peers.kernels, config.compute.kernels) || config.swarm.allow_mixed) {
    return std::nullopt;
  }
  return BrokenRule{
      {id + ".kernels", "swarm.allow_mixed"},
      "peers.kernels = " + toml_string(name_of(peers.kernels)) +
          " beside compute.kernels = " + toml_string(name_of(config.compute.kernels)) +
          " needs swarm.allow_mixed = true: their bits differ"};
}

/// No two rows of [[peers]] are about the same peer.
Broken check_peer_lists(const Config& config) {
  std::set<std::int64_t> listed;
  bool rest_is_listed = false;
  for (std::size_t row = 0; row < config.peer_classes.size(); ++row) {
    const PeersConfig& peers = config.peer_classes[row];
    const std::string id = "peers[" + std::to_string(row) + "]";
    if (auto broken = check_peers(config, peers, id)) return broken;
    if (peers.peers.empty() && std::exchange(rest_is_listed, true)) {
      return BrokenRule{{id + ".peers", id, "peers"},
                        "peers.peers: a second row without ids, for all peers that no other row "
                        "names: there can be one"};
    }
    for (const std::int64_t peer : peers.peers) {
      if (listed.insert(peer).second) continue;
      return BrokenRule{{id + ".peers", "peers"},
                        "peers.peers: peer " + std::to_string(peer) + " is listed twice"};
    }
  }
  return std::nullopt;
}

/// A process that is started later finds no memory that the others share.
Broken check_spawned_lines(const Config& config) {
  if (config.compute.fidelity != Fidelity::emulated || !config.swarm.spawn) return std::nullopt;
  const std::optional<CommonRate> common = common_rate(config);
  if (!common) return std::nullopt;
  return BrokenRule{{"swarm.spawn"},
                    "swarm.spawn = true starts processes that do not know what others send over " +
                        common->id + "." + common->key +
                        ", which peers share: leave one of the two out"};
}

/// Who computes nothing is emulated or simulated, and none of its peers computes.
Broken check_no_kernels(const Config& config) {
  if (config.compute.kernels != Kernels::none) return std::nullopt;
  const auto refuse = [](std::vector<std::string> keys, const std::string& why) {
    keys.insert(keys.begin(), "compute.kernels");
    return BrokenRule{std::move(keys), "compute.kernels = \"none\" computes nothing: " + why};
  };
  if (config.compute.fidelity == Fidelity::real) {
    return refuse({"compute.fidelity"}, "it needs compute.fidelity = \"emulated\"");
  }
  if (config.output.validate_every > 0) {
    return refuse({"output.validate_every"}, "set output.validate_every = 0");
  }
  for (std::size_t row = 0; row < config.peer_classes.size(); ++row) {
    const PeerKernels kernels = config.peer_classes[row].kernels;
    if (!kernels_differ(kernels, config.compute.kernels)) continue;
    return refuse({"peers[" + std::to_string(row) + "].kernels"},
                  "nor can some peers, by peers.kernels = " + toml_string(name_of(kernels)));
  }
  for (const FaultAt& fault : config.faults_at) {
    if (fault.event != FaultEvent::flip) continue;
    return refuse({"faults.at"}, "there is no state for faults.at.event = \"flip\"");
  }
  return std::nullopt;
}

}  // namespace

bool kernels_differ(PeerKernels of_peers, Kernels of_all) {
  return of_peers != PeerKernels::as_all && name_of(of_peers) != name_of(of_all);
}

std::optional<CommonRate> common_rate(const Config& config) {
  std::set<std::string> peopled;
  for (const PeersConfig& peers : config.peer_classes) peopled.insert(peers.site);
  for (const SiteConfig& site : config.sites) {
    if (!peopled.contains(site.name)) continue;
    const std::string id = "sites." + site.name;
    if (site.up_mbps > 0) return CommonRate{id, "up_mbps"};
    if (site.down_mbps > 0) return CommonRate{id, "down_mbps"};
  }
  for (std::size_t row = 0; row < config.routes.size(); ++row) {
    const RouteConfig& route = config.routes[row];
    const bool used = peopled.contains(route.sites[0]) && peopled.contains(route.sites[1]);
    if (used && route.mbps > 0) {
      return CommonRate{"routes[" + std::to_string(row) + "]", "mbps"};
    }
  }
  return std::nullopt;
}

std::optional<BrokenRule> broken_rule_of_machines(const Config& config) {
  for (const DeviceConfig& device : config.devices) {
    if (auto broken = check_device(device)) return broken;
  }
  if (auto broken = check_routes(config)) return broken;
  if (auto broken = check_spawned_lines(config)) return broken;
  if (auto broken = check_no_kernels(config)) return broken;
  return check_peer_lists(config);
}

}  // namespace swarmpi
