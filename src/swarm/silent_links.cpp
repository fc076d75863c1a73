#include "swarm/silent_links.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

// In periods: so long reports must come.
constexpr double kProves = 2;

}  // namespace

void SilentLinks::reported(PeerId from, PeerId other, double now_s) {
  Report& report =
      reports_.try_emplace(std::minmax(from, other), Report{now_s, now_s}).first->second;
  if (now_s - report.last_s > counts_s_) report.first_s = now_s;
  report.last_s = now_s;
}

void SilentLinks::forget(PeerId peer) {
  std::erase_if(reports_, [&](const auto& report) {
    return report.first.first == peer || report.first.second == peer;
  });
}

std::optional<PeerId> SilentLinks::worst(
    double now_s, const std::function<std::optional<double>(PeerId)>& spoke_s) {
  std::erase_if(reports_, [&](const auto& report) {
    return !spoke_s(report.first.first) || !spoke_s(report.first.second);
  });
  std::map<PeerId, int> links;
  for (const auto& [pair, report] : reports_) {
    const bool stands = now_s - report.last_s <= counts_s_;
    const bool both_spoke = std::min(*spoke_s(pair.first), *spoke_s(pair.second)) > report.first_s;
    if (!stands || !both_spoke || report.last_s - report.first_s < kProves * period_s_) continue;
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
