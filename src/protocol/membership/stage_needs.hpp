#pragma once
// Which stage needs a newcomer most: by cost, by measured capacity, or by load (swarm.newcomers).

#include <map>
#include <utility>
#include <vector>

#include "protocol/membership/departures.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

/// What a microbatch takes at each peer in each of its stages, as measured in its last step.
class MeasuredTimes {
 public:
  void enter(const UseFact& fact);
  void forget(PeerId peer) {
    std::erase_if(seconds_, [&](const auto& known) { return known.first.second == peer; });
  }
  /// Microbatches a second of one peer, the mean over those that stay in the stage; 0 where none of
  /// them was measured.
  double mean_rate(const View& view, StageId stage) const;

 private:
  std::map<std::pair<StageId, PeerId>, double> seconds_;
};

/// For each stage a number that, over the peers that serve or learn it, says how much it needs
/// another one. Where nothing was measured, or no load is known, of some stage: the costs.
std::vector<double> stage_needs(const RunPlan& plan, const View& view, const Departures& departures,
                                const MeasuredTimes& times, const std::map<StageId, double>& loads);

}  // namespace swarmpi
