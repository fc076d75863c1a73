#include "protocol/membership/silent_links.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace swarmpi {
namespace {

// Periods over which reports must come before a link counts as cut.
constexpr double kPeriodsOfSilence = 2;
// Pings that both ends must answer, the next after the last: a peer that is stopped again at once
// answers the first, and all that have waited with it.
constexpr int kAnswersThatProve = 2;

}  // namespace

std::vector<PeerId> SilentLinks::reported(PeerId from, PeerId other, double now_s) {
  Report& report = reports_.try_emplace(between(from, other), Report{now_s, now_s}).first->second;
  if (now_s - report.last_s > valid_s()) report = {now_s, now_s};
  report.last_s = now_s;
  report.ends[from].reported_s = now_s;
  std::vector<PeerId> asked;
  bool all_live = true;
  for (const PeerId peer : {from, other}) {
    End& end = report.ends[peer];
    if (end.answers >= kAnswersThatProve) continue;
    all_live = false;
    if (end.pinged_s) continue;
    end.pinged_s = now_s;
    pinged_[peer].insert(between(from, other));
    asked.push_back(peer);
  }
  const bool long_enough = now_s - report.first_s >= kPeriodsOfSilence * period_s_;
  report.proven = report.proven || (long_enough && all_live);
  return asked;
}

// Of a large stage hundreds may report one peer, and thousands answer in each period.
void SilentLinks::answered(PeerId peer, double sent_s) {
  const auto links = pinged_.find(peer);
  if (links == pinged_.end()) return;
  std::erase_if(links->second, [&](const Link& link) {
    const auto report = reports_.find(link);
    if (report == reports_.end()) return true;
    End& end = report->second.ends[peer];
    if (end.pinged_s != sent_s) return !end.pinged_s.has_value();
    end.pinged_s.reset();
    ++end.answers;
    return true;
  });
  if (links->second.empty()) pinged_.erase(links);
}

void SilentLinks::forget(PeerId peer) {
  pinged_.erase(peer);
  std::erase_if(reports_, [&](const auto& report) {
    return report.first.first == peer || report.first.second == peer;
  });
}

std::optional<SilentLinks::Worst> SilentLinks::worst(double now_s,
                                                     const std::function<bool(PeerId)>& is_heard) {
  std::erase_if(reports_, [&](const auto& report) {
    const bool is_old = now_s - report.second.last_s > valid_s();
    return is_old || !is_heard(report.first.first) || !is_heard(report.first.second);
  });
  struct Links {
    std::set<Link> all;
    std::size_t unheard = 0;  // those whose other end does not know of it
    double first_s = 0;       // when one of them was reported first
  };
  std::map<PeerId, Links> links;
  for (const auto& [link, report] : reports_) {
    if (!report.proven) continue;
    const auto reports = [&, &report = report](PeerId peer) {
      const std::optional<double> reported_s = report.ends.at(peer).reported_s;
      return reported_s && now_s - *reported_s <= valid_s();
    };
    for (const auto& [peer, other] : {link, Link(link.second, link.first)}) {
      Links& of = links[peer];
      of.first_s = of.all.empty() ? report.first_s : std::min(of.first_s, report.first_s);
      of.all.insert(link);
      of.unheard += reports(peer) && !reports(other) ? 1 : 0;
    }
  }
  // Else those at the other ends of a bad peer's links would go one after the other.
  std::erase_if(links, [&](const auto& entry) {
    return entry.second.all.size() == 1 && now_s - entry.second.first_s < spread_s_ + period_s_;
  });
  const auto badness = [](const auto& entry) {
    return std::tuple(entry.second.all.size(), entry.second.unheard, entry.first);
  };
  const auto worst = std::max_element(
      links.begin(), links.end(),
      [&](const auto& one, const auto& other) { return badness(one) < badness(other); });
  if (worst == links.end()) return std::nullopt;
  return Worst{worst->first, worst->second.all};
}

}  // namespace swarmpi
