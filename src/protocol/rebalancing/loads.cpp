#include "protocol/rebalancing/loads.hpp"

#include "protocol/messages/load_facts.hpp"

namespace swarmpi {

void Loads::count_in(ViewNumber view, double now_s) {
  view_ = view;
  passed_until_s_ = now_s;
  waiting_.clear();
  open_s_ = 0;
}

// What a peer reports grows while the view stands: a report that comes twice, or late, does no
// harm.
void Loads::enter(const LoadFact& fact, PeerId from, double now_s) {
  if (fact.view != view_) return;
  Waiting& known = waiting_[{fact.stage, from}];
  if (fact.waited_s < known.waited_s) return;
  known.waited_s = fact.waited_s;
  known.heard_s = now_s;
}

void Loads::pass(double now_s, bool steps_open) {
  if (steps_open) open_s_ += now_s - passed_until_s_;
  passed_until_s_ = now_s;
}

StageLoads Loads::averages(double now_s) const {
  StageLoads loads;
  if (open_s_ <= 0) return loads;
  for (const auto& [role, waiting] : waiting_) {
    const auto& [stage, peer] = role;
    if (now_s - waiting.heard_s > period_s_) continue;
    loads[stage][peer] = (waiting.waited_s - waiting.before_s) / open_s_;
  }
  return loads;
}

void Loads::begin_anew() {
  for (auto& [role, waiting] : waiting_) waiting.before_s = waiting.waited_s;
  open_s_ = 0;
}

}  // namespace swarmpi
