#include "protocol/step/swarm_speed.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace swarmpi {
namespace {

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

// The allocation of peers to stages, each to one, whose weakest stage can do most.
class BestAllocation {
 public:
  // REQUIRES: no fewer peers than stages.
  BestAllocation(const std::vector<double>& costs, std::vector<double> speeds)
      : costs_(costs), speeds_(std::move(speeds)), rates_(costs.size(), 0.0) {
    std::sort(speeds_.begin(), speeds_.end(), std::greater<>());
    best_ = greedy();
    std::size_t allocations = 1;
    for (std::size_t peer = 0; peer < speeds_.size(); ++peer) {
      allocations *= costs.size();
      if (allocations > kMostAllocations) return;
    }
    search(0, std::accumulate(speeds_.begin(), speeds_.end(), 0.0));
  }

  // Microbatches a second.
  double weakest() const { return best_; }

 private:
  // So many are looked at in the time of a step: 12 peers of 2 stages, 6 of 4.
  static constexpr std::size_t kMostAllocations = 5000;

  // The fastest peer first, to the weakest stage: of several that have nobody the costliest.
  double greedy() const {
    std::vector<double> rates = rates_;
    for (const double speed : speeds_) {
      std::size_t weakest = 0;
      for (std::size_t stage = 1; stage < costs_.size(); ++stage) {
        if (std::pair(rates[stage], -costs_[stage]) < std::pair(rates[weakest], -costs_[weakest]))
          weakest = stage;
      }
      rates[weakest] += speed / costs_[weakest];
    }
    return least(rates);
  }

  // Tries each stage for this peer and those behind it. `left`: their speed, all together.
  void search(std::size_t peer, double left) {
    if (peer == speeds_.size()) {
      best_ = std::max(best_, least(rates_));
      return;
    }
    for (std::size_t stage = 0; stage < costs_.size(); ++stage) {
      if (rates_[stage] + left / costs_[stage] <= best_) return;  // whatever the others do
    }
    for (std::size_t stage = 0; stage < costs_.size(); ++stage) {
      const double before = rates_[stage];
      rates_[stage] += speeds_[peer] / costs_[stage];
      search(peer + 1, left - speeds_[peer]);
      rates_[stage] = before;
    }
  }

  const std::vector<double>& costs_;
  std::vector<double> speeds_, rates_;
  double best_ = 0;
};

}  // namespace

void SwarmSpeed::measure(const std::vector<PeerRow>& rows) {
  struct Done {
    double cost = 0, useful_s = 0;
  };
  std::map<PeerId, Done> done;
  for (const PeerRow& row : rows) {
    if (row.stage < 0 || row.stage >= static_cast<std::int64_t>(costs_.size())) continue;
    Done& of_peer = done[PeerId(static_cast<std::int32_t>(row.peer))];
    of_peer.cost += costs_[static_cast<std::size_t>(row.stage)] *
                    static_cast<double>(row.microbatches - row.repeated);
    of_peer.useful_s += row.useful_s;
  }
  for (const auto& [peer, work] : done) {
    if (work.cost > 0 && work.useful_s > 0) speeds_[peer] = work.cost / work.useful_s;
  }
}

double SwarmSpeed::ideal_per_s(const View& view) const {
  double sum = 0;
  for (const auto& [peer, speed] : speeds_) {
    const auto member = view.members().find(peer);
    if (member != view.members().end() && !member->second.empty()) sum += speed;
  }
  return sum / std::accumulate(costs_.begin(), costs_.end(), 0.0);
}

double SwarmSpeed::fraction_of_capacity(const View& view) const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> now(costs_.size(), 0.0), speeds;
  for (const auto& [peer, speed] : speeds_) {
    const auto member = view.members().find(peer);
    if (member == view.members().end() || member->second.empty()) continue;
    speeds.push_back(speed);
    double cost = 0;
    for (const StageId stage : member->second)
      cost += costs_.at(static_cast<std::size_t>(stage.value));
    for (const StageId stage : member->second)
      now[static_cast<std::size_t>(stage.value)] += speed / cost;
  }
  if (speeds.size() < costs_.size()) return kUnknown;
  const double best = BestAllocation(costs_, std::move(speeds)).weakest();
  return least(now) / std::max(least(now), best);
}

}  // namespace swarmpi
