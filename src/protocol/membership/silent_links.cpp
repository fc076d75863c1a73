#include "protocol/membership/silent_links.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

// In periods: so long reports must come.
constexpr double kProves = 2;

}  // namespace

void SilentLinks::reported(PeerId from, PeerId other, double now_s, std::optional<double> spoke_s) {
  const auto [place, fresh] =
      reports_.try_emplace(std::minmax(from, other), Report{now_s, now_s, false});
  Report& report = place->second;
  if (now_s - report.last_s > counts_s_) report = {now_s, now_s, false};
  report.last_s = now_s;
  const bool long_enough = now_s - report.first_s >= kProves * period_s_;
  report.proven = report.proven || (long_enough && spoke_s && *spoke_s > report.first_s);
}

void SilentLinks::forget(PeerId peer) {
  std::erase_if(reports_, [&](const auto& report) {
    return report.first.first == peer || report.first.second == peer;
  });
}

std::optional<PeerId> SilentLinks::worst(double now_s, const std::function<bool(PeerId)>& speaks) {
  std::erase_if(reports_, [&](const auto& report) {
    return !speaks(report.first.first) || !speaks(report.first.second);
  });
  std::map<PeerId, int> links;
  for (const auto& [pair, report] : reports_) {
    if (!report.proven || now_s - report.last_s > counts_s_) continue;
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
