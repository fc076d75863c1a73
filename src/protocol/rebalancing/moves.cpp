#include "protocol/rebalancing/moves.hpp"

namespace swarmpi {

bool Moves::advance(View& view, Departures& departures, const Learners& learners, Step committed,
                    double now_s, const MemoryNeeds& needs) {
  bool changed = false;
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    const Move& move = moves_[i];
    if (done_.contains(i) || committed < move.after || superseded(i, committed)) continue;
    const auto member = view.members().find(move.peer);
    const bool can =
        member != view.members().end() && !member->second.empty() && !departures.departs(move.peer);
    if (!can || member->second.contains(move.to)) {
      done_.insert(i);
      if (!can) continue;
      changed |= departures.cancel_leaving(view, move.peer, move.to);
      for (const StageId stage : member->second) {
        const bool leaves = stage != move.to && !departures.stays_alone(view, move.peer, stage);
        if (leaves) changed |= view.set_leaving(move.peer, stage, true);
      }
    } else if (!view.learns(move.peer, move.to) && !learners.backs_off(move.peer, now_s) &&
               room_to_learn(needs, view, move.peer, move.to) == Room::beside) {
      view.learn(move.peer, move.to);
      changed = true;
    }
  }
  return changed;
}

// A new leader finds moves due that a leader before it has made.
bool Moves::superseded(std::size_t move, Step committed) const {
  for (std::size_t i = move + 1; i < moves_.size(); ++i) {
    const Move& later = moves_[i];
    if (later.peer == moves_[move].peer && later.after <= committed) return true;
  }
  return false;
}

}  // namespace swarmpi
