#include "protocol/rebalancing/rebalancing.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

bool stays(const View& view, const Departures& departures, PeerId peer, StageId stage) {
  return view.serves(peer, stage) && !view.leaves(peer, stage) && !departures.departs(peer);
}

/// Whether somebody else stays in the stage.
bool has_fellows(const View& view, const Departures& departures, PeerId peer, StageId stage) {
  const std::int64_t itself = stays(view, departures, peer, stage) ? 1 : 0;
  return departures.staying(view, stage) > itself;
}

}  // namespace

std::map<StageId, double> loads_of_stages(const StageLoads& loads, RebalanceLoad how) {
  std::map<StageId, double> by_stage;
  for (const auto& [stage, peers] : loads) {
    double sum = 0;
    for (const auto& [peer, load] : peers) sum += load;
    by_stage[stage] =
        how == RebalanceLoad::mean ? sum / static_cast<double>(peers.size()) : sum;  // (2)
  }
  return by_stage;
}

std::vector<PeerId> movable_peers(const View& view, const Departures& departures, StageId stage) {
  std::vector<PeerId> movable;
  for (const PeerId peer : view.staying(stage)) {
    const bool serves_only_this = view.members().at(peer).size() == 1;
    if (serves_only_this && !view.learners().contains(peer) && !departures.departs(peer) &&
        has_fellows(view, departures, peer, stage)) {
      movable.push_back(peer);
    }
  }
  return movable;
}

std::optional<StageMove> choose_move(const View& view, const Departures& departures,
                                     const std::function<bool(PeerId, StageId)>& may_learn,
                                     const StageLoads& loads, RebalanceLoad how) {
  const std::map<StageId, double> load = loads_of_stages(loads, how);
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto s_max = std::max_element(load.begin(), load.end(), less);  // (3)
  std::optional<StageMove> move;
  double least_load = s_max->second;
  for (const auto& [stage, stage_load] : load) {
    if (stage_load >= least_load) continue;
    const PeerLoads& queues = loads.at(stage);
    std::optional<PeerId> shortest;  // (4)
    for (const PeerId peer : movable_peers(view, departures, stage)) {
      if (!queues.contains(peer) || !may_learn(peer, s_max->first)) continue;
      if (!shortest || queues.at(peer) < queues.at(*shortest)) shortest = peer;
    }
    if (!shortest) continue;
    least_load = stage_load;
    move = StageMove{*shortest, stage, s_max->first};  // (5)
  }
  return move;
}

void Rebalancing::count_in(ViewNumber view, Step committed, double now_s) {
  counted_from_ = committed;
  loads_.count_in(view, now_s);
}

bool Rebalancing::all_known(const View& view, const StageLoads& loads) const {
  if (static_cast<std::int64_t>(loads.size()) < plan_.stages()) return false;
  return std::all_of(loads.begin(), loads.end(), [&](const auto& known) {
    const std::vector<PeerId>& peers = view.staying(known.first);
    return std::all_of(peers.begin(), peers.end(),
                       [&](PeerId peer) { return loads_.has_reported(peer, known.first); });
  });
}

// To ask whether all is known takes a look at all peers: not at each event.
std::optional<StageMove> Rebalancing::decide(const View& view, const Departures& departures,
                                             const Learners& learners, Step committed,
                                             double now_s) {
  if (!plan_.swarm.needs_loads() || view.move() || now_s < next_decision_s_) return std::nullopt;
  const double period_s = plan_.swarm.rebalance_period_s;
  const StageLoads loads = loads_.averages(now_s);
  if (committed <= counted_from_ || !all_known(view, loads)) {
    next_decision_s_ = now_s + period_s / 16;
    return std::nullopt;
  }
  next_decision_s_ = now_s + period_s;
  loads_.begin_anew();
  counted_from_ = committed;
  stage_loads_ = loads_of_stages(loads, plan_.swarm.rebalance_load);
  if (plan_.swarm.rebalance == Rebalance::none) return std::nullopt;
  const auto may_learn = [&](PeerId peer, StageId stage) {
    return !learners.backs_off(peer, now_s) && could_learn_alone(plan_.needs, view, peer, stage);
  };
  return choose_move(view, departures, may_learn, loads, plan_.swarm.rebalance_load);
}

bool Rebalancing::begin(View& view, const StageMove& move, const MemoryNeeds& needs) {
  const bool beside = room_to_learn(needs, view, move.peer, move.to) == Room::beside;
  if (beside) {
    view.begin_move(move);
  } else {
    view.begin_move_by_leaving(move);
  }
  return beside;
}

// A peer that serves several stages without a move was not given them to move: it keeps them. One
// that moves and has neither of its stages has dropped the old one to have room for the new one.
Rebalancing::Progress Rebalancing::advance(View& view, Departures& departures,
                                           const MemoryNeeds& needs) {
  const auto [peer, from, to] = *view.move();
  const auto ends = [&view](const char* how) {
    view.end_move();
    return Progress{true, how};
  };
  if (departures.departs(peer)) {
    if (view.learns(peer, to)) view.take_from(peer, to);
    return ends("it was asked to leave the run");
  }
  if (view.serves(peer, to) && !view.serves(peer, from)) return ends("it has moved");
  if (!view.serves(peer, from)) {
    if (view.learns(peer, to)) return {};
    view.learn(peer, to);
    return {true, ""};
  }
  if (!has_fellows(view, departures, peer, from)) {
    if (view.learns(peer, to)) view.take_from(peer, to);
    departures.cancel_leaving(view, peer, from);
    return ends("it stays: the others of its stage are gone");
  }
  if (view.serves(peer, to)) return {view.set_leaving(peer, from, true), ""};
  const bool leaves_first = room_to_learn(needs, view, peer, to) != Room::beside;
  if (view.learns(peer, to) || (leaves_first && view.leaves(peer, from))) return {};
  return ends("it stays: it could not learn the new stage");
}

}  // namespace swarmpi
