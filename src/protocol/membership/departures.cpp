#include "protocol/membership/departures.hpp"

#include <algorithm>

namespace swarmpi {

// ---- Who was asked to leave

std::optional<std::string> Departures::asked_of_all(const View& view,
                                                    const std::set<PeerId>& unkillable) const {
  std::optional<std::string> why;
  for (const auto& [peer, stages] : view.members()) {
    const auto notice = notices_.find(peer);
    if (notice == notices_.end() && !unkillable.contains(peer)) return std::nullopt;
    if (notice != notices_.end() && !why) why = notice->second.why;
  }
  return why;
}

std::vector<std::pair<PeerId, std::string>> Departures::begin(const View& view, double now_s,
                                                              double together_s,
                                                              const HeardSince& heard_since) {
  std::vector<std::pair<PeerId, std::string>> begun;
  const auto others_stay = [&](double since_s) {
    return std::all_of(view.members().begin(), view.members().end(), [&](const auto& member) {
      return notices_.contains(member.first) || heard_since(member.first, since_s);
    });
  };
  for (const auto& [peer, notice] : notices_) {
    if (now_s < notice.at_s + together_s || departs(peer) || !view.contains(peer)) continue;
    if (!others_stay(notice.at_s)) continue;
    departing_.insert(peer);
    begun.emplace_back(peer, notice.why);
  }
  return begun;
}

void Departures::lost(PeerId peer) {
  notices_.erase(peer);
  departing_.erase(peer);
}

std::int64_t Departures::staying(const View& view, StageId stage) const {
  const auto& replicas = view.staying(stage);
  return static_cast<std::int64_t>(replicas.size()) -
         std::count_if(departing_.begin(), departing_.end(), [&](PeerId peer) {
           return view.serves(peer, stage) && !view.leaves(peer, stage);
         });
}

bool Departures::stays_alone(const View& view, PeerId peer, StageId stage) const {
  return staying(view, stage) == 1 && view.serves(peer, stage) && !view.leaves(peer, stage) &&
         !departs(peer);
}

std::int64_t Departures::serving(const View& view) const {
  return view.serving() - std::count_if(departing_.begin(), departing_.end(), [&](PeerId peer) {
           return !view.members().at(peer).empty();
         });
}

std::int64_t Departures::busy(const View& view) const {
  return static_cast<std::int64_t>(view.members().size() - view.idle().size()) -
         std::count_if(departing_.begin(), departing_.end(),
                       [&](PeerId peer) { return !view.idle().contains(peer); });
}

// ---- Handing over

bool Departures::hand_over(View& view, const std::function<bool(PeerId)>& may_learn) {
  bool changed = false;
  for (const PeerId peer : departing_) {
    for (const StageId stage : view.members().at(peer)) {
      if (staying(view, stage) > 0) {
        changed |= view.set_leaving(peer, stage, true);
      } else {
        changed |= choose_successor(view, stage, may_learn);
      }
    }
  }
  return changed;
}

bool Departures::choose_successor(View& view, StageId stage,
                                  const std::function<bool(PeerId)>& may_learn) {
  for (const PeerId learner : view.learners_of(stage)) {
    if (!departs(learner)) return false;
  }
  for (const PeerId replica : view.replicas(stage)) {
    if (!departs(replica)) return cancel_leaving(view, replica, stage);  // it was about to move
  }
  std::optional<PeerId> successor;
  for (const auto& [peer, stages] : view.members()) {
    if (departs(peer) || !may_learn(peer)) continue;
    if (!successor || stages.size() < view.members().at(*successor).size()) successor = peer;
  }
  if (successor) view.learn(*successor, stage);
  return successor.has_value();
}

bool Departures::cancel_leaving(View& view, PeerId peer, StageId stage) {
  drained_after_.erase({peer, stage});
  return view.set_leaving(peer, stage, false);
}

void Departures::keep_last_replicas(View& view) {
  std::vector<Role> needed;
  for (const auto& [peer, stages] : view.leaving()) {
    for (const StageId stage : stages) {
      if (view.staying(stage).empty()) needed.emplace_back(peer, stage);
    }
  }
  for (const auto& [peer, stage] : needed) cancel_leaving(view, peer, stage);
}

// ---- Draining

// Its last microbatches are of the steps that were open when it was first seen to leave.
bool Departures::is_drained(PeerId peer, StageId stage, const Progress& progress) {
  const Step last = drained_after_.try_emplace({peer, stage}, progress.newest).first->second;
  return progress.committed >= last && progress.agreed >= last && !progress.writes(peer, stage);
}

std::vector<Departures::Role> Departures::remove_drained(View& view, const Progress& progress) {
  std::vector<Role> drained;
  for (const auto& [peer, stages] : view.leaving()) {
    for (const StageId stage : stages) {
      if (is_drained(peer, stage, progress)) drained.emplace_back(peer, stage);
    }
  }
  for (const auto& [peer, stage] : drained) {
    view.take_from(peer, stage);
    drained_after_.erase({peer, stage});
  }
  return drained;
}

std::vector<PeerId> Departures::release_drained(View& view, PeerId self) {
  std::vector<PeerId> gone;
  for (const PeerId peer : departing_) {
    if (peer != self && view.members().at(peer).empty()) gone.push_back(peer);
  }
  for (const PeerId peer : gone) {
    view.remove(peer);
    lost(peer);
    released_.insert(peer);
  }
  return gone;
}

}  // namespace swarmpi
