#include "protocol/membership/silent_links.hpp"

namespace swarmpi {
namespace {

// Periods over which reports must come before a link counts as cut.
constexpr double kPeriodsThatProve = 2;

}  // namespace

void SilentLinks::reported(PeerId from, PeerId other, double now_s,
                           std::optional<double> last_message_s) {
  const auto [entry, added] =
      reports_.try_emplace(between(from, other), Report{now_s, now_s, false});
  Report& report = entry->second;
  if (now_s - report.last_s > validity_s_) report = {now_s, now_s, false};
  report.last_s = now_s;
  const bool long_enough = now_s - report.first_s >= kPeriodsThatProve * period_s_;
  report.proven =
      report.proven || (long_enough && last_message_s && *last_message_s > report.first_s);
}

void SilentLinks::forget(PeerId peer) {
  std::erase_if(reports_, [&](const auto& report) {
    return report.first.first == peer || report.first.second == peer;
  });
}

std::optional<SilentLinks::Worst> SilentLinks::worst(double now_s,
                                                     const std::function<bool(PeerId)>& is_heard) {
  std::erase_if(reports_, [&](const auto& report) {
    return !is_heard(report.first.first) || !is_heard(report.first.second);
  });
  std::map<PeerId, std::set<Link>> links;
  for (const auto& [link, report] : reports_) {
    if (!report.proven || now_s - report.last_s > validity_s_) continue;
    links[link.first].insert(link);
    links[link.second].insert(link);
  }
  std::optional<Worst> worst;
  for (const auto& [peer, its_links] : links) {
    if (!worst || its_links.size() >= worst->links.size()) worst = Worst{peer, its_links};
  }
  return worst;
}

}  // namespace swarmpi
