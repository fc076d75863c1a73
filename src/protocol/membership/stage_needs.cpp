#include "protocol/membership/stage_needs.hpp"

#include <algorithm>

#include "protocol/messages/load_facts.hpp"

namespace swarmpi {

void MeasuredTimes::enter(const UseFact& fact) {
  const PeerRow& row = fact.row;
  if (row.microbatches == 0 || row.compute_s <= 0) return;
  const StageId stage(static_cast<std::int32_t>(row.stage));
  const PeerId peer(static_cast<std::int32_t>(row.peer));
  seconds_[{stage, peer}] = row.compute_s / static_cast<double>(row.microbatches);
}

double MeasuredTimes::mean_rate(const View& view, StageId stage) const {
  double sum = 0;
  int measured = 0;
  for (const PeerId peer : view.staying(stage)) {
    const auto found = seconds_.find({stage, peer});
    if (found == seconds_.end()) continue;
    sum += 1 / found->second;
    ++measured;
  }
  return measured > 0 ? sum / measured : 0;
}

std::vector<double> stage_needs(const RunPlan& plan, const View& view, const Departures& departures,
                                const MeasuredTimes& times,
                                const std::map<StageId, double>& loads) {
  std::vector<double> needs;
  for (std::int32_t s = 0; s < plan.stages(); ++s) {
    const StageId stage(s);
    if (plan.swarm.newcomers == NewcomerPolicy::weakest) {
      const double rate = times.mean_rate(view, stage);
      if (rate == 0) return plan.stage_costs;
      needs.push_back(1 / rate);
    } else if (plan.swarm.newcomers == NewcomerPolicy::loaded) {
      const auto load = loads.find(stage);
      if (load == loads.end()) return plan.stage_costs;
      // A learner takes its part of the load, as if it served already.
      const auto staying = std::max<std::int64_t>(departures.staying(view, stage), 1);
      needs.push_back(load->second * static_cast<double>(staying));
    } else {
      return plan.stage_costs;
    }
  }
  return needs;
}

}  // namespace swarmpi
