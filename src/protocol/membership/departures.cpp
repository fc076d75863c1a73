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
  std::vector<std::pair<double, PeerId>> due;
  for (const auto& [peer, notice] : notices_) {
    const bool waits = now_s < notice.at_s + together_s;
    if (!waits && !departs(peer) && view.contains(peer)) due.emplace_back(notice.at_s, peer);
  }
  const auto others_stay = [&](double since_s) {
    return std::all_of(view.members().begin(), view.members().end(), [&](const auto& member) {
      return notices_.contains(member.first) || heard_since(member.first, since_s);
    });
  };
  // Of hundreds that were asked at once: who was not heard since the first was, was not since the
  // others were.
  std::sort(due.begin(), due.end());
  std::vector<std::pair<PeerId, std::string>> begun;
  for (const auto& [at_s, peer] : due) {
    if (!others_stay(at_s)) break;
    departing_.insert(peer);
    begun.emplace_back(peer, notices_.at(peer).why);
  }
  std::sort(begun.begin(), begun.end());
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

Departures::HandedOver Departures::hand_over(View& view,
                                             const std::function<bool(PeerId)>& may_learn,
                                             const MemoryNeeds& needs) {
  HandedOver done;
  std::map<StageId, std::int64_t>
      stay;  // counted once: a departing peer that leaves changes nothing
  for (const PeerId peer : departing_) {
    for (const StageId stage : view.members().at(peer)) {
      const auto known = stay.find(stage);
      const auto of_stage =
          known != stay.end() ? known : stay.emplace(stage, staying(view, stage)).first;
      if (of_stage->second > 0) {
        done.view_changed |= view.set_leaving(peer, stage, true);
      } else {
        choose_successor(view, stage, may_learn, needs, done);
        stay.erase(of_stage);
      }
    }
  }
  return done;
}

void Departures::choose_successor(View& view, StageId stage,
                                  const std::function<bool(PeerId)>& may_learn,
                                  const MemoryNeeds& needs, HandedOver& done) {
  for (const PeerId learner : view.learners_of(stage)) {
    if (!departs(learner)) return;
  }
  for (const PeerId replica : view.replicas(stage)) {
    if (departs(replica)) continue;
    done.view_changed |= cancel_leaving(view, replica, stage);  // it was about to move
    return;
  }
  std::optional<PeerId> successor;
  Room of_successor = Room::none;
  for (const auto& [peer, stages] : view.members()) {
    if (departs(peer) || !may_learn(peer)) continue;
    const Room room = room_of_successor(view, peer, stage, needs);
    const bool serves_fewer =
        successor && room == of_successor && stages.size() < view.members().at(*successor).size();
    if (room <= of_successor && !serves_fewer) continue;
    successor = peer;
    of_successor = room;
  }
  if (!successor) return;
  if (of_successor == Room::if_others_give_way) {
    const std::set<StageId> learned = view.learners().at(*successor);
    for (const StageId other : learned) {
      view.take_from(*successor, other);
      done.gave_way.emplace_back(*successor, other);
    }
  }
  view.learn(*successor, stage);
  done.view_changed = true;
}

// What a stage needs to be served at all gives way to nothing: two such stages would take the room
// from each other for ever.
Room Departures::room_of_successor(const View& view, PeerId peer, StageId stage,
                                   const MemoryNeeds& needs) const {
  const Room room = room_to_learn(needs, view, peer, stage);
  if (room != Room::if_others_give_way) return room;
  const std::set<StageId>& learned = view.learners().at(peer);
  const bool spared = std::all_of(learned.begin(), learned.end(),
                                  [&](StageId other) { return staying(view, other) > 0; });
  return spared ? room : Room::none;
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
