#include "torture/fault_injector.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/random.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/transport_port.hpp"
#include "protocol/messages/views.hpp"

namespace swarmpi {

FaultInjector::FaultInjector(const FaultSchedule& schedule, const RunPlan& plan,
                             const InitialMembership& membership, VirtualWorld& world,
                             Referee& referee)
    : schedule_(schedule),
      world_(world),
      referee_(referee),
      view_(share(first_view(plan, membership))),
      living_(membership.all()) {
  for (const Fault& fault : schedule_.all) {
    if (&fault == &schedule_.all.front() || !fault.since_last_fault) armed_.push_back({&fault});
  }
}

// ---- Moments

void FaultInjector::happened(double now_s, PeerId peer, const Event& event) {
  if (!due_.empty()) inject_due(now_s, std::nullopt);
  if (armed_.empty()) return;
  Occurrence occurrence{peer, {}, kind_of(event)};
  if (const auto* arrived = get_if<MessageArrived>(&event)) occurrence.other = arrived->from;
  observe(now_s, occurrence);
}

void FaultInjector::asked(double now_s, PeerId peer, const Action& action) {
  const auto* send = get_if<Send>(&action);
  const auto* view = send == nullptr ? nullptr : get_if<ViewMessage>(&send->message.body);
  if (view != nullptr && view->view->number > view_->number) {
    std::erase_if(living_, [&](PeerId member) {
      const bool left = view_->contains(member) && !view->view->contains(member);
      return left && !world_.is_active(member);
    });
    view_ = view->view;
    candidates_.clear();
    for (const auto& [member, stages] : view_->members()) {
      const bool known = std::find(living_.begin(), living_.end(), member) != living_.end();
      if (!known && !world_.dead(member)) living_.push_back(member);  // a newcomer
    }
  }
  const auto* lost = send == nullptr ? nullptr : get_if<LostMessage>(&send->message.body);
  if (lost != nullptr && lost->peer == peer) std::erase(living_, peer);  // a leader that leaves
  if (holds_alternative<CreateTerm>(action)) {
    candidates_.insert(peer);
    kill_whom_it_has_lost(now_s, peer);
  }
  if (!due_.empty()) inject_due(now_s, MomentKind::Of::action);
  if (armed_.empty()) return;
  Occurrence occurrence{peer, {}, kind_of(action)};
  if (send != nullptr) occurrence.other = send->to;
  observe(now_s, occurrence);
}

void FaultInjector::handled(double now_s, PeerId) {
  if (!due_.empty()) inject_due(now_s, std::nullopt);
}

void FaultInjector::died(double, PeerId peer) { std::erase(living_, peer); }

bool FaultInjector::matches(const Fault& fault, const Occurrence& occurrence) const {
  if (fault.moment ? fault.moment->kind != occurrence.kind
                   : occurrence.kind.of != MomentKind::Of::event) {
    return false;
  }
  if (fault.actor == Fault::Actor::leader) return occurrence.peer == living_.front();
  return fault.actor == Fault::Actor::any || occurrence.peer == fault.given_actor;
}

void FaultInjector::observe(double now_s, const Occurrence& occurrence) {
  std::vector<const Fault*> triggered;
  for (Armed& armed : armed_) {
    if (!matches(*armed.fault, occurrence)) continue;
    const bool late_enough = now_s >= armed.since_s + armed.fault->not_before_s;
    if (++armed.seen >= armed.fault->count && late_enough) triggered.push_back(armed.fault);
  }
  if (triggered.empty()) return;
  std::erase_if(armed_, [&](const Armed& armed) {
    return std::find(triggered.begin(), triggered.end(), armed.fault) != triggered.end();
  });
  for (const Fault* fault : triggered) {
    if (fault->side == Fault::Side::before) {
      inject(now_s, *fault, victims(*fault, occurrence));
    } else {
      due_.push_back({fault, victims(*fault, occurrence), occurrence.kind.of});
    }
  }
}

// ---- Victims

std::vector<PeerId> FaultInjector::victims(const Fault& fault, const Occurrence& occurrence) const {
  RandomStream draws(fault.victim_seed, Stream::simulation, 21);
  std::vector<PeerId> acting;
  for (const PeerId peer : living_) {
    if (world_.is_active(peer)) acting.push_back(peer);
  }
  std::vector<PeerId> chosen;
  const auto choose = [&](PeerId peer) {
    std::erase(acting, peer);
    chosen.push_back(peer);
  };
  if (fault.victim == Fault::Victim::actor) {
    choose(occurrence.peer);
  } else if (fault.victim == Fault::Victim::other_endpoint && occurrence.other) {
    choose(*occurrence.other);
  } else if (fault.victim == Fault::Victim::leader) {
    choose(living_.front());
  } else if (fault.victim == Fault::Victim::stage) {
    for (const PeerId peer : view_->replicas(fault.stage)) choose(peer);
  } else if (!acting.empty()) {
    choose(draws.one_of(acting));
  }
  for (std::int64_t i = 0; i < fault.more && !acting.empty(); ++i) choose(draws.one_of(acting));
  return chosen;
}

bool FaultInjector::may_die(PeerId peer) const {
  if (!world_.is_active(peer)) return false;
  if (!schedule_.spares_a_replica) return true;
  const auto served = view_->members().find(peer);
  if (served == view_->members().end()) return living_.size() > 1;
  for (const StageId stage : served->second) {
    const std::vector<PeerId> replicas = view_->replicas(stage);
    const auto stays = [&](PeerId other) { return other != peer && !world_.dead(other); };
    if (std::none_of(replicas.begin(), replicas.end(), stays)) return false;
  }
  return living_.size() > 1;
}

namespace {

std::string verb(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kill:
      return "kills";
    case Fault::Kind::flip:
      return "flips a bit of";
    case Fault::Kind::notice:
      return "asks to leave";
    case Fault::Kind::hang_jobs:
      return "hangs the jobs of";
    case Fault::Kind::hang_disk:
      return "hangs the disk of";
    case Fault::Kind::hang_loop:
      return "hangs the event loop of";
    default:
      return "stops";
  }
}

}  // namespace

bool FaultInjector::flip_bit(PeerId peer) {
  const auto served = view_->members().find(peer);
  if (served == view_->members().end()) return false;
  for (const StageId stage : served->second) {
    if (view_->replicas(stage).size() > 1 && world_.flip(peer, stage)) return true;
  }
  return false;
}

std::string FaultInjector::apply(double now_s, const Fault& fault,
                                 const std::vector<PeerId>& victims) {
  if (fault.kind == Fault::Kind::cut || fault.kind == Fault::Kind::cut_one_way ||
      fault.kind == Fault::Kind::lose_link)
    return cut_links(now_s, fault, victims);
  if (fault.kind == Fault::Kind::outbid) {
    if (!world_.outbid()) return "";
    ++counts_[static_cast<std::size_t>(fault.kind)];
    return "has another run take the next term";
  }
  std::string names;
  for (const PeerId peer : victims) {
    const bool dies = fault.kind == Fault::Kind::kill || fault.kind == Fault::Kind::declare_dead;
    if (dies ? !may_die(peer) : !world_.is_active(peer)) continue;
    if (fault.kind == Fault::Kind::flip && !flip_bit(peer)) continue;
    ++counts_[static_cast<std::size_t>(fault.kind)];
    names += fmt::format(" {}{}", peer.value, peer == living_.front() ? " (leader)" : "");
    if (fault.kind == Fault::Kind::kill) {
      world_.kill(peer);
      continue;
    }
    if (fault.kind == Fault::Kind::flip) continue;
    if (fault.kind == Fault::Kind::notice) {
      world_.post(now_s, peer, StopRequested{"asked to leave"});
      continue;
    }
    if (fault.kind == Fault::Kind::hang_jobs) {
      referee_.expect_hang(peer, Task::job, now_s + fault.duration_s);
      world_.hang_jobs(peer, fault.duration_s);
      continue;
    }
    if (fault.kind == Fault::Kind::hang_disk) {
      referee_.expect_hang(peer, Task::storage, now_s + fault.duration_s);
      world_.hang_disk(peer, fault.duration_s);
      continue;
    }
    referee_.expect_stop(peer, now_s, now_s + fault.duration_s);
    if (fault.kind == Fault::Kind::hang_loop) {
      // Some hear it and some do not, as where links are cut: then either end may be killed.
      for (const PeerId other : living_) {
        referee_.expect_silence(other, now_s, now_s + fault.duration_s);
      }
      world_.hang_loop(peer, fault.duration_s);
    } else {
      world_.stop(peer, fault.duration_s, !fault.reachable);
    }
    if (dies) world_.declare_dead(peer);
  }
  if (names.empty()) return "";
  return verb(fault.kind) + names;
}

// The first peer is cut from all the others.
std::string FaultInjector::cut_links(double now_s, const Fault& fault,
                                     const std::vector<PeerId>& ends) {
  if (ends.size() < 2) return "";
  const PeerId first = ends.front();
  const bool one_way = fault.kind == Fault::Kind::cut_one_way;
  std::string text =
      fmt::format("cuts {} {}", first.value,
                  fault.kind == Fault::Kind::lose_link ? "for good, and both told, from"
                  : !one_way                           ? "from"
                  : fault.inward                       ? "off what comes from"
                                                       : "off what it sends to");
  const auto leads = [this](PeerId peer) {
    return peer == view_->leader() || candidates_.contains(peer);
  };
  bool cuts = false;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    if (fault.kind == Fault::Kind::lose_link && (leads(first) || leads(ends[i]))) continue;
    cuts = true;
    text += fmt::format(" {}", ends[i].value);
    ++counts_[static_cast<std::size_t>(fault.kind)];
    for (const PeerId end : {first, ends[i]}) {
      referee_.expect_silence(end, now_s, now_s + fault.duration_s);
    }
    if (!one_way || !fault.inward) world_.cut(first, ends[i], fault.duration_s, fault.reachable);
    if (!one_way || fault.inward) world_.cut(ends[i], first, fault.duration_s, fault.reachable);
    if (fault.kind != Fault::Kind::lose_link) continue;
    lost_links_.emplace_back(first, ends[i]);
    for (const PeerId end : {first, ends[i]}) referee_.expect_false_death(end);
    world_.post(now_s, first, PeerLost{ends[i]});
    world_.post(now_s, ends[i], PeerLost{first});
  }
  return cuts ? text : "";
}

void FaultInjector::kill_whom_it_has_lost(double now_s, PeerId leader) {
  for (const auto& [one, other] : lost_links_) {
    if (one != leader && other != leader) continue;
    const PeerId lost = one == leader ? other : one;
    if (!may_die(lost)) continue;
    world_.kill(lost);
    text_ += fmt::format(", at event {} ({:.6f} s) kills {}, which peer {} is to lead without",
                         world_.events(), now_s, lost.value, leader.value);
  }
}

void FaultInjector::inject(double now_s, const Fault& fault, const std::vector<PeerId>& victims) {
  const std::string what = apply(now_s, fault, victims);
  if (!what.empty()) {
    if (fault.moment) ++moments_[moment_index(fault.moment->kind)];
    if (text_ == "nothing") text_.clear();
    text_ += fmt::format("{}at event {} ({:.6f} s) ", text_.empty() ? "" : ", ", world_.events(),
                         now_s) +
             what;
  }
  const auto next = static_cast<std::size_t>(&fault - schedule_.all.data()) + 1;
  if (next < schedule_.all.size() && schedule_.all[next].since_last_fault) {
    armed_.push_back({&schedule_.all[next], now_s});
  }
}

void FaultInjector::inject_due(double now_s, std::optional<MomentKind::Of> after) {
  std::vector<Due> now;
  std::erase_if(due_, [&](const Due& due) {
    if (after && due.after != *after) return false;
    now.push_back(due);
    return true;
  });
  for (const Due& due : now) inject(now_s, *due.fault, due.victims);
}

}  // namespace swarmpi
