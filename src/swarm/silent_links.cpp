#include "swarm/silent_links.hpp"

#include <algorithm>

namespace swarmpi {

void SilentLinks::reported(PeerId from, PeerId other, double now_s) {
  reported_s_[std::minmax(from, other)] = now_s;
}

void SilentLinks::forget(PeerId peer) {
  std::erase_if(reported_s_, [&](const auto& report) {
    return report.first.first == peer || report.first.second == peer;
  });
}

std::optional<PeerId> SilentLinks::worst(double now_s, double recent_s) const {
  std::map<PeerId, int> links;
  for (const auto& [pair, at_s] : reported_s_) {
    if (now_s - at_s > recent_s) continue;
    ++links[pair.first];
    ++links[pair.second];
  }
  std::optional<PeerId> worst;
  for (const auto& [peer, count] : links) {
    if (!worst || count >= links.at(*worst)) worst = peer;
  }
  return worst;
}

}  // namespace swarmpi
