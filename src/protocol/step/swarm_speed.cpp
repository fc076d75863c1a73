#include "protocol/step/swarm_speed.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace swarmpi {
namespace {

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

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
  std::vector<double> now(costs_.size(), 0.0), best = now, speeds;
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
  std::sort(speeds.begin(), speeds.end(), std::greater<>());
  for (const double speed : speeds) {
    const auto weakest = std::min_element(best.begin(), best.end());
    *weakest += speed / costs_[static_cast<std::size_t>(weakest - best.begin())];
  }
  return least(now) / std::max(least(now), least(best));
}

}  // namespace swarmpi
