#include "torture/rules/commit_history.hpp"

#include <algorithm>

#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"
#include "torture/run_record.hpp"

namespace swarmpi {

void CommitHistory::knows(PeerId peer, Step step) {
  Known& known = known_.try_emplace(peer, at_start_).first->second;
  known.last = std::max(known.last, step);
}

std::string CommitHistory::announces(PeerId leader, const CommitRef& record) {
  knows(leader, record->step);
  commits_.try_emplace(record->step, record);
  return announces_though_dead(record);
}

std::string CommitHistory::announces_though_dead(const CommitRef& record) const {
  const auto known = commits_.find(record->step);
  if (known == commits_.end() || known->second == record) return "";
  const std::string unequal = difference(*known->second, *record);
  return unequal.empty() ? "" : "a step is committed once: " + unequal;
}

bool CommitHistory::falls_back(PeerId peer, const std::shared_ptr<const RestartPoint>& restart) {
  const Incarnation incarnation(restart->state.incarnation);
  const Step step(restart->state.step);
  Known& known = known_.try_emplace(peer, at_start_).first->second;
  const bool reused = known.restart && restart != known.restart;
  if (incarnation < known.incarnation) return false;
  if (incarnation == known.incarnation && !reused) return false;
  known = {incarnation, step, step, restart};
  // A new leader may reuse the number of a fallback that no live peer knows of; and a newcomer may
  // be told of an old one.
  if (restart == fallback_) return false;
  fallback_ = restart;
  incarnation_ = incarnation;
  return true;
}

Step CommitHistory::last(const Population& population) const {
  Step last = at_start_.last;
  for (const auto& [peer, known] : known_) {
    const bool left_behind = known.incarnation < incarnation_;
    const bool counts = population.lives(peer) && !population.is_outsider(peer);
    if (counts && !left_behind) last = std::max(last, known.last);
  }
  return last;
}

bool CommitHistory::is_behind(PeerId peer) const {
  const auto known = known_.find(peer);
  return (known == known_.end() ? at_start_ : known->second).incarnation < incarnation_;
}

bool CommitHistory::fell_back_to(PeerId peer, Step step) const {
  const auto known = known_.find(peer);
  return known != known_.end() && known->second.fallback == step;
}

}  // namespace swarmpi
