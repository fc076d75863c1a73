#include "simulator/fault_injector.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "simulator/draw_sequence.hpp"

namespace swarmpi {

FaultInjector::FaultInjector(const FaultSchedule& schedule, const RunPlan& plan,
                             const Roster& roster, VirtualWorld& world)
    : schedule_(schedule),
      world_(world),
      view_(deal_peers(roster.workers, roster.spares, plan.stage_costs, plan.swarm.pins)),
      living_(roster.all()) {
  for (const Kill& kill : schedule_.kills) {
    if (&kill == &schedule_.kills.front() || !kill.from_last_death) armed_.push_back({&kill});
  }
}

// ---- Moments

void FaultInjector::happened(double now_s, PeerId peer, const Event& event) {
  if (!due_.empty()) carry_out_due(now_s, std::nullopt);
  if (armed_.empty()) return;
  Sight sight{peer, {}, kind_of(event)};
  if (const auto* arrived = std::get_if<MessageArrived>(&event)) sight.other = arrived->from;
  see(now_s, sight);
}

void FaultInjector::asked(double now_s, PeerId peer, const Action& action) {
  const auto* send = std::get_if<Send>(&action);
  const auto* view = send == nullptr ? nullptr : std::get_if<ViewMessage>(&send->message.body);
  if (view != nullptr && view->view.number > view_.number) {
    view_ = view->view;
    for (const auto& [member, stages] : view_.members) {
      const bool known = std::find(living_.begin(), living_.end(), member) != living_.end();
      if (!known && !world_.dead(member)) living_.push_back(member);  // has joined
    }
  }
  if (!due_.empty()) carry_out_due(now_s, MomentKind::Of::action);
  if (armed_.empty()) return;
  Sight sight{peer, {}, kind_of(action)};
  if (send != nullptr) sight.other = send->to;
  see(now_s, sight);
}

void FaultInjector::handled(double now_s, PeerId) {
  if (!due_.empty()) carry_out_due(now_s, std::nullopt);
}

void FaultInjector::died(double, PeerId peer) { std::erase(living_, peer); }

bool FaultInjector::counts(const Kill& kill, const Sight& sight) const {
  if (kill.moment ? kill.moment->kind != sight.kind : sight.kind.of != MomentKind::Of::event) {
    return false;
  }
  if (kill.whose == Kill::Whose::leader) return sight.peer == living_.front();
  return kill.whose == Kill::Whose::anybody || sight.peer == kill.given;
}

void FaultInjector::see(double now_s, const Sight& sight) {
  std::vector<const Kill*> ripe;
  for (Armed& armed : armed_) {
    if (!counts(*armed.kill, sight)) continue;
    const bool late_enough = now_s >= armed.since_s + armed.kill->not_before_s;
    if (++armed.seen >= armed.kill->count && late_enough) ripe.push_back(armed.kill);
  }
  if (ripe.empty()) return;
  std::erase_if(armed_, [&](const Armed& armed) {
    return std::find(ripe.begin(), ripe.end(), armed.kill) != ripe.end();
  });
  for (const Kill* kill : ripe) {
    if (kill->side == Kill::Side::before) {
      carry_out(now_s, *kill, victims(*kill, sight));
    } else {
      due_.push_back({kill, victims(*kill, sight), sight.kind.of});
    }
  }
}

// ---- Victims

std::vector<PeerId> FaultInjector::victims(const Kill& kill, const Sight& sight) const {
  DrawSequence draws(kill.lot, 21);
  std::vector<PeerId> acting;
  for (const PeerId peer : living_) {
    if (world_.acts(peer)) acting.push_back(peer);
  }
  std::vector<PeerId> chosen;
  const auto choose = [&](PeerId peer) {
    std::erase(acting, peer);
    chosen.push_back(peer);
  };
  if (kill.victim == Kill::Victim::actor) {
    choose(sight.peer);
  } else if (kill.victim == Kill::Victim::other_side && sight.other) {
    choose(*sight.other);
  } else if (kill.victim == Kill::Victim::leader) {
    choose(living_.front());
  } else if (kill.victim == Kill::Victim::stage) {
    for (const PeerId peer : view_.replicas(kill.stage)) choose(peer);
  } else if (!acting.empty()) {
    choose(draws.one_of(acting));
  }
  for (std::int64_t i = 0; i < kill.more && !acting.empty(); ++i) choose(draws.one_of(acting));
  return chosen;
}

bool FaultInjector::may_die(PeerId peer) const {
  if (!world_.acts(peer)) return false;
  if (!schedule_.spares_a_replica) return true;
  const auto served = view_.members.find(peer);
  if (served == view_.members.end()) return living_.size() > 1;
  for (const StageId stage : served->second) {
    const std::vector<PeerId> replicas = view_.replicas(stage);
    const auto stays = [&](PeerId other) { return other != peer && !world_.dead(other); };
    if (std::none_of(replicas.begin(), replicas.end(), stays)) return false;
  }
  return living_.size() > 1;
}

void FaultInjector::carry_out(double now_s, const Kill& kill, const std::vector<PeerId>& victims) {
  std::string names;
  for (const PeerId peer : victims) {
    if (!may_die(peer)) continue;
    names += format(peer == living_.front() ? " %d (leader)" : " %d", peer.value);
    world_.kill(peer);
  }
  if (!names.empty()) {
    if (text_ == "nobody") text_.clear();
    text_ += format("%sat event %lld (%.6f s)", text_.empty() ? "" : ", ",
                    static_cast<long long>(world_.events()), now_s) +
             names;
  }
  const auto next = static_cast<std::size_t>(&kill - schedule_.kills.data()) + 1;
  if (next < schedule_.kills.size() && schedule_.kills[next].from_last_death) {
    armed_.push_back({&schedule_.kills[next], now_s});
  }
}

void FaultInjector::carry_out_due(double now_s, std::optional<MomentKind::Of> after) {
  std::vector<Due> now;
  std::erase_if(due_, [&](const Due& due) {
    if (after && due.after != *after) return false;
    now.push_back(due);
    return true;
  });
  for (const Due& due : now) carry_out(now_s, *due.kill, due.victims);
}

}  // namespace swarmpi
