#pragma once
// What the live peers could do if nothing held them up: the measure of /throughput.

#include <map>
#include <utility>
#include <vector>

#include "core/records.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

class SwarmSpeed {
 public:
  /// `stage_costs`: FLOPs per token of each stage; only their ratios matter.
  explicit SwarmSpeed(std::vector<double> stage_costs) : costs_(std::move(stage_costs)) {}

  /// What peers did in one step. Each peer's speed is that of the last step in which it did useful
  /// work; one that never did has none, and counts for nothing.
  void measure(const std::vector<PeerRow>& rows);
  /// Microbatches a second, were the work of all stages dealt to the serving peers so that each is
  /// busy all the time, at its own speed; 0 where no speed is known.
  double ideal_per_s(const View& view) const;
  /// What the weakest stage can do, over what the weakest could under the best allocation of the
  /// same peers to stages, each to one; NaN with fewer peers than stages, or where no speed is
  /// known. With more than 5000 allocations the best is looked for greedily, the fastest peer
  /// first, to the weakest stage: it may be missed, and the fraction is too large then.
  double fraction_of_capacity(const View& view) const;

 private:
  std::vector<double> costs_;
  std::map<PeerId, double> speeds_;  // cost a second
};

}  // namespace swarmpi
