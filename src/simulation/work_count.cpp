#include "simulation/work_count.hpp"

namespace swarmpi {
namespace {

// Works are ordered by step.
WorkId first_after(Step step) { return {{step.next(), Purpose::train, 0}, StageId(0)}; }

}  // namespace

bool WorkCount::begin(PeerId peer, const WorkId& work, Pass pass) {
  Begun& begun = begun_[work];
  const auto kind = static_cast<std::size_t>(pass);
  if (pass == Pass::backward) begun.backward_by = peer;
  const std::int64_t first_plan = first_plan_.try_emplace(work.microbatch, plans_).first->second;
  if (begun.times[kind]++ == 0) return true;
  if (deaths_.empty()) return false;
  ++(pass == Pass::backward ? deaths_.back().repeated : deaths_.back().forward_again);
  return begun.times[kind] <= 2 + plans_ - first_plan;
}

void WorkCount::died(PeerId peer, bool led, Step committed) {
  DeathCost cost{peer, led, 0, 0, 0};
  for (auto it = begun_.lower_bound(first_after(committed)); it != begun_.end(); ++it) {
    const Begun& begun = it->second;
    const bool backward = begun.times[static_cast<std::size_t>(Pass::backward)] > 0;
    if (backward && begun.backward_by == peer) ++cost.own;
  }
  deaths_.push_back(cost);
}

void WorkCount::restarted(Step step) {
  begun_.erase(begun_.lower_bound(first_after(step)), begun_.end());
}

}  // namespace swarmpi
