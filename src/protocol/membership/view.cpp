#include "protocol/membership/view.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.hpp"
#include "core/contiguous_partition.hpp"

namespace swarmpi {
namespace {

/// Seats of each stage: in proportion to its cost by largest remainder, at least one each. A stage
/// whose fair share is below one gets one seat and leaves the proportion; ties go to the earlier
/// stage.
std::vector<std::int64_t> apportion(std::int64_t seats, const std::vector<double>& costs) {
  const std::size_t stages = costs.size();
  std::vector<std::int64_t> given(stages, 0);
  std::vector<std::size_t> open(stages);  // the stages still in the proportion
  std::iota(open.begin(), open.end(), std::size_t{0});
  std::int64_t left = seats;
  double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
  const auto share = [&](std::size_t s) {
    return sum > 0 ? static_cast<double>(left) * costs[s] / sum
                   : static_cast<double>(left) / static_cast<double>(open.size());
  };
  for (bool all_fair = false; !all_fair;) {
    std::vector<std::size_t> fair;
    for (const std::size_t s : open) {
      if (share(s) < 1) {
        given[s] = 1;
      } else {
        fair.push_back(s);
      }
    }
    all_fair = fair.size() == open.size();
    left -= static_cast<std::int64_t>(open.size() - fair.size());
    open = std::move(fair);
    sum = 0;
    for (const std::size_t s : open) sum += costs[s];
  }
  if (open.empty()) return given;
  std::vector<double> remainder(stages, 0.0);
  std::int64_t unseated = left;
  for (const std::size_t s : open) {
    const double fair = share(s);
    given[s] = static_cast<std::int64_t>(std::floor(fair));
    remainder[s] = fair - std::floor(fair);
    unseated -= given[s];
  }
  std::stable_sort(open.begin(), open.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (std::size_t i = 0; unseated > 0; ++i, --unseated) ++given[open[i % open.size()]];
  return given;
}

/// Seats of each stage as apportioned, where a stage has at least as many as peers are pinned to
/// it: a stage with more of them leaves the proportion. REQUIRES: seats for all of these and for
/// one peer in each other stage.
std::vector<std::int64_t> apportion(std::int64_t seats, const std::vector<double>& costs,
                                    const std::vector<std::int64_t>& pinned) {
  std::vector<std::int64_t> given = pinned;
  std::vector<std::size_t> open(costs.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  for (bool all_fair = false; !all_fair;) {
    std::int64_t left = seats;
    for (const std::int64_t taken : given) left -= taken;
    std::vector<double> open_costs;
    for (const std::size_t s : open) {
      left += given[s];
      open_costs.push_back(costs[s]);
    }
    const auto fair = apportion(left, open_costs);
    std::vector<std::size_t> still_open;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (fair[i] >= pinned[open[i]]) still_open.push_back(open[i]);
    }
    all_fair = still_open.size() == open.size();
    for (std::size_t i = 0; all_fair && i < open.size(); ++i) given[open[i]] = fair[i];
    open = std::move(still_open);
  }
  return given;
}

/// Deals peers like cards to the stages that still have seats, so that the replicas of a stage lie
/// far apart in the order of ids: on different hosts where possible.
void deal_replicas(View& view, const std::vector<PeerId>& workers,
                   std::vector<std::int64_t> seats) {
  std::size_t next = 0;
  while (next < workers.size()) {
    for (std::size_t s = 0; s < seats.size() && next < workers.size(); ++s) {
      if (seats[s] == 0) continue;
      --seats[s];
      view.members[workers[next++]].insert(StageId(static_cast<std::int32_t>(s)));
    }
  }
}

void deal_pinned(View& view, const std::vector<PeerId>& workers, const std::vector<double>& costs,
                 const std::vector<std::int64_t>& pins) {
  std::vector<std::int64_t> pinned(costs.size(), 0);
  for (std::size_t i = 0; i < pins.size(); ++i) {
    ++pinned.at(static_cast<std::size_t>(pins[i]));
    view.members[workers.at(i)].insert(StageId(static_cast<std::int32_t>(pins[i])));
  }
  auto seats = apportion(static_cast<std::int64_t>(workers.size()), costs, pinned);
  for (std::size_t s = 0; s < seats.size(); ++s) seats[s] -= pinned[s];
  const auto unpinned = workers.begin() + static_cast<std::ptrdiff_t>(pins.size());
  deal_replicas(view, {unpinned, workers.end()}, std::move(seats));
}

/// Each peer gets neighbouring stages, of nearly equal cost together.
void deal_neighbouring_stages(View& view, const std::vector<PeerId>& workers,
                              const std::vector<double>& costs) {
  const auto ends = partition_contiguous(costs, static_cast<std::int64_t>(workers.size()));
  std::int64_t stage = 0;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    for (; stage < ends[i]; ++stage) {
      view.members[workers[i]].insert(StageId(static_cast<std::int32_t>(stage)));
    }
  }
}

}  // namespace

PeerId View::leader() const {
  SWARMPI_CHECK(!members.empty(), "a view has a member, its leader");
  return members.begin()->first;
}

bool View::serves(PeerId peer, StageId stage) const {
  const auto member = members.find(peer);
  return member != members.end() && member->second.contains(stage);
}

std::vector<PeerId> View::replicas(StageId stage) const {
  std::vector<PeerId> peers;
  for (const auto& [peer, stages] : members) {
    if (stages.contains(stage)) peers.push_back(peer);
  }
  return peers;
}

std::vector<PeerId> View::staying(StageId stage) const {
  std::vector<PeerId> peers = replicas(stage);
  std::erase_if(peers, [&](PeerId peer) {
    const auto leaves = leaving.find(peer);
    return leaves != leaving.end() && leaves->second.contains(stage);
  });
  return peers;
}

std::vector<PeerId> View::choices(StageId stage) const {
  std::vector<PeerId> peers = staying(stage);
  return peers.empty() ? replicas(stage) : peers;
}

std::vector<PeerId> View::learners_of(StageId stage) const {
  std::vector<PeerId> peers;
  for (const auto& [peer, stages] : learners) {
    if (stages.contains(stage)) peers.push_back(peer);
  }
  return peers;
}

void View::remove(PeerId peer) {
  members.erase(peer);
  learners.erase(peer);
  leaving.erase(peer);
}

void View::take_from(PeerId peer, StageId stage) {
  if (const auto serves = members.find(peer); serves != members.end()) serves->second.erase(stage);
  for (auto* roles : {&learners, &leaving}) {
    const auto role = roles->find(peer);
    if (role == roles->end()) continue;
    role->second.erase(stage);
    if (role->second.empty()) roles->erase(role);
  }
}

View deal_peers(const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
                const std::vector<double>& stage_costs, const std::vector<std::int64_t>& pins) {
  SWARMPI_CHECK(!workers.empty() && !stage_costs.empty(), "a view needs a worker and a stage");
  View view;
  for (const PeerId spare : spares) view.members[spare];
  std::vector<PeerId> ordered = workers;
  std::sort(ordered.begin(), ordered.end());
  if (!pins.empty()) {
    deal_pinned(view, ordered, stage_costs, pins);
  } else if (ordered.size() < stage_costs.size()) {
    deal_neighbouring_stages(view, ordered, stage_costs);
  } else {
    deal_replicas(view, ordered, apportion(static_cast<std::int64_t>(ordered.size()), stage_costs));
  }
  return view;
}

}  // namespace swarmpi
