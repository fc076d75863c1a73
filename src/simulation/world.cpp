#include "simulation/world.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/text.hpp"

namespace swarmpi {
void VirtualWorld::add(PeerId id, std::unique_ptr<Peer> peer, VirtualCompute& compute,
                       double start_s, double clock_offset_s) {
  Member member;
  member.peer = std::move(peer);
  member.compute = &compute;
  member.start_s = std::max(start_s, now_s_);
  member.clock_offset_s = clock_offset_s;
  heap_.push(member.start_s, {id, Event(Started{})});
  const bool fresh = members_.try_emplace(id, std::move(member)).second;
  SWARMPI_CHECK(fresh, "the id of a peer is never used again");
}

bool VirtualWorld::kill(PeerId id) {
  Member& victim = members_.at(id);
  if (!victim.acts()) return false;
  victim.peer.reset();
  if (!victim.given_up) tell_of_death(id);
  return true;
}

void VirtualWorld::tell_of_death(PeerId id) {
  for (const auto& [other, member] : members_) {
    if (!member.acts() || other == id) continue;
    const DeathPropagation after = links_.death_propagation(id, other);
    if (dead(id)) last_words_s_[{id, other}] = now_s_ + after.messages_until_s;
    post(now_s_ + after.loss_known_s, other, PeerLost{id});
  }
  for (Observer* observer : observers_) observer->died(now_s_, id);
}

void VirtualWorld::tell_of_silence(PeerId id, double until_s) {
  for (Observer* observer : observers_) observer->falls_silent(now_s_, until_s, id);
}

void VirtualWorld::stop(PeerId id, double lasts_s) {
  tell_of_silence(id, now_s_ + lasts_s);
  Member& member = members_.at(id);
  member.stopped_until_s = std::max(member.stopped_until_s, now_s_ + lasts_s);
}

void VirtualWorld::give_up_for_dead(PeerId id) {
  Member& member = members_.at(id);
  if (!member.acts() || std::exchange(member.given_up, true)) return;
  tell_of_death(id);
}

bool VirtualWorld::flip(PeerId id, StageId stage) {
  Member& member = members_.at(id);
  return member.acts() && member.compute->flip(stage);
}

void VirtualWorld::cut(PeerId a, PeerId b, double lasts_s, bool reachable) {
  tell_of_silence(a, now_s_ + lasts_s);
  tell_of_silence(b, now_s_ + lasts_s);
  const Cut cut{now_s_ + lasts_s, reachable};
  const auto [place, fresh] = cuts_.try_emplace(std::minmax(a, b), cut);
  if (fresh) return;
  if (place->second.until_s < now_s_) place->second.reachable = true;
  place->second.until_s = std::max(place->second.until_s, cut.until_s);
  place->second.reachable = place->second.reachable && reachable;
}

const VirtualWorld::Cut* VirtualWorld::cut_between(PeerId a, PeerId b) const {
  if (cuts_.empty()) return nullptr;
  const auto cut = cuts_.find(std::minmax(a, b));
  return cut == cuts_.end() || cut->second.until_s < now_s_ ? nullptr : &cut->second;
}

void VirtualWorld::post(double at_s, PeerId to, Event event) {
  const double start_s = members_.at(to).start_s;
  heap_.push(std::max({at_s, now_s_, start_s}), {to, std::move(event)});
}

bool VirtualWorld::all_done() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& entry) { return !entry.second.acts(); });
}

bool VirtualWorld::step() {
  while (finding_.ok() && !heap_.empty()) {
    now_s_ = heap_.next_s();
    Member& member = members_.at(heap_.next().peer);
    if (rests(member, heap_.next())) {
      heap_.postpone(member.stopped_until_s);
      continue;
    }
    Pending next = heap_.pop();
    if (const auto* delivery = std::get_if<KillDelivery>(&next.what)) {
      land(next.peer, member, *delivery);
      continue;
    }
    if (!member.acts()) {
      const auto* written = std::get_if<Written>(&next.what);
      if (written != nullptr && dead(next.peer)) written_after_death(next.peer, member, *written);
      continue;
    }
    const std::optional<Event> event = event_of(next.peer, member, next);
    if (!event) continue;
    let_happen(next.peer, member, *event);
    return finding_.ok();
  }
  return false;
}

bool VirtualWorld::rests(const Member& member, const Pending& next) const {
  const bool lands = std::holds_alternative<KillDelivery>(next.what);
  // What it had begun to write when it was killed keeps its order.
  const bool concerns = member.acts() || std::holds_alternative<Written>(next.what);
  return concerns && !lands && now_s_ < member.stopped_until_s;
}

std::optional<Event> VirtualWorld::event_of(PeerId id, Member& member, Pending& next) {
  if (const auto* timer = std::get_if<TimerEnd>(&next.what)) {
    if (timer->number != member.timers) return std::nullopt;
    return TimerDue{};
  }
  if (auto* event = std::get_if<Event>(&next.what)) {
    if (swallowed(id, *event)) return std::nullopt;
    return std::move(*event);
  }
  return written(id, member, std::get<Written>(next.what));
}

bool VirtualWorld::swallowed(PeerId to, const Event& event) const {
  if (last_words_s_.empty()) return false;
  const auto* arrived = std::get_if<MessageArrived>(&event);
  if (arrived == nullptr) return false;
  const auto last = last_words_s_.find({arrived->from, to});
  return last != last_words_s_.end() && now_s_ > last->second;
}

// Observers may kill at any of these points.
void VirtualWorld::let_happen(PeerId id, Member& member, const Event& event) {
  ++events_;
  for (Observer* observer : observers_) observer->happened(now_s_, id, event);
  if (!member.peer) return;
  Actions actions = member.peer->handle(event, now_s_ + member.clock_offset_s);
  for (Action& action : actions) {
    for (Observer* observer : observers_) observer->asked(now_s_, id, action);
    if (!member.peer) return;
    take(id, member, action);
  }
  for (Observer* observer : observers_) observer->handled(now_s_, id);
}

void VirtualWorld::take(PeerId from, Member& member, Action& action) {
  std::visit(Overloaded{
                 [&](Send& a) { send(from, member, a); },
                 [&](const StartJob& a) { start(from, member, a.job); },
                 [&](const SetTimer& a) {
                   heap_.push(time_of(a.due_s, member), {from, TimerEnd{++member.timers}});
                 },
                 [&](const KillPeer& a) { have_killed(from, a.peer); },
                 [&](const SpawnPeer&) {
                   post(now_s_, from, SpawnFailed{"nobody comes into this world by call"});
                 },
                 [&](const Finish&) { member.finished = true; },
                 [&](const auto&) { write(from, member, action); },
             },
             action);
}

// ---- Killing by order

void VirtualWorld::have_killed(PeerId by, PeerId victim) {
  const Cut* cut = cut_between(by, victim);
  if (cut != nullptr && !cut->reachable) {
    post(now_s_ + links_.kill_delivery_s(by, victim), by, KillFailed{victim});
  } else {
    heap_.push(now_s_ + links_.kill_delivery_s(by, victim), {victim, KillDelivery{by}});
  }
}

void VirtualWorld::land(PeerId victim, Member& member, const KillDelivery& delivery) {
  if (member.acts()) {
    kill(victim);
  } else if (members_.at(delivery.by).acts()) {
    post(now_s_, delivery.by, PeerLost{victim});  // it is gone
  }
}

double VirtualWorld::time_of(double clock_s, const Member& member) const {
  double at_s = std::max(now_s_, clock_s - member.clock_offset_s);
  // A rounding error must not let a timer end early: it would be set again, for ever.
  while (at_s + member.clock_offset_s < clock_s) {
    at_s = std::nextafter(at_s, std::numeric_limits<double>::infinity());
  }
  return at_s;
}

void VirtualWorld::send(PeerId from, Member& member, Send& send) {
  const auto to = members_.find(send.to);
  if (to == members_.end() || !to->second.acts()) return;
  const Delivery delivery = links_.deliver(from, send.to, send.message, now_s_);
  if (delivery.copies == 0) return;
  double& last_s = member.last_arrival_s[send.to];
  const Cut* cut = cut_between(from, send.to);
  if (cut != nullptr && std::isinf(cut->until_s)) return;
  const double leaves_s = cut == nullptr ? now_s_ : cut->until_s;
  last_s = std::max({last_s, leaves_s + delivery.delay_s, to->second.start_s});
  for (int copy = 1; copy < delivery.copies; ++copy) {
    heap_.push(last_s, {send.to, Event(MessageArrived{from, send.message})});
  }
  heap_.push(last_s, {send.to, Event(MessageArrived{from, std::move(send.message)})});
}

void VirtualWorld::start(PeerId id, Member& member, const Job& job) {
  Result<JobResult> result = member.compute->execute(job);
  if (!result.ok()) {
    if (finding_.ok()) finding_ = result.status();
    return;
  }
  const double duration_s = costs_.seconds(id, job);
  heap_.push(now_s_ + duration_s, {id, Event(JobFinished{std::move(result).value(), duration_s})});
}

void VirtualWorld::write(PeerId id, Member& member, Action& action) {
  if (member.disk_failed) return;
  const WriteAnswer answer = disks_.write(id, action);
  member.disk_free_s = std::max(member.disk_free_s, now_s_) + answer.seconds;
  if (answer.status.ok()) {
    heap_.push(member.disk_free_s,
               {id, Written{std::move(action), member.term, answer.without_writer}});
  } else {
    member.disk_failed = true;
    heap_.push(member.disk_free_s, {id, Event(StorageFailed{answer.status})});
  }
}

// What is synced in order is lost in order: after the first that is not written nothing is. Of a
// stage's part nobody will ever know.
void VirtualWorld::written_after_death(PeerId id, Member& member, const Written& write) {
  if (!write.without_writer) member.disk_failed = true;
  const bool counts = !std::holds_alternative<StoreStage>(write.write) &&
                      !std::holds_alternative<LoadStage>(write.write);
  if (!member.disk_failed && counts) (void)written(id, member, write);
}

// What a leader stores counts only as long as nobody leads after it; what the dead had under way
// may come late.
bool VirtualWorld::term_is_over(const Member& member, const Written& write) const {
  const bool leads = std::holds_alternative<StoreRecord>(write.write) ||
                     std::holds_alternative<StoreManifest>(write.write) ||
                     std::holds_alternative<StoreEnd>(write.write);
  return leads && member.acts() && write.term < *disk_.terms.rbegin();
}

std::optional<Event> VirtualWorld::written(PeerId id, Member& member, const Written& write) {
  using Answer = std::optional<Event>;
  if (term_is_over(member, write)) return TermOver{write.term, *disk_.terms.rbegin()};
  return std::visit(Overloaded{
                        [&](const CreateTerm& a) -> Answer {
                          if (disk_.has_ended()) return TermCreated{a.term, false, disk_.ended};
                          const bool created = disk_.terms.insert(a.term).second;
                          if (created) member.term = a.term;
                          return TermCreated{a.term, created};
                        },
                        [&](const StoreRecord& a) -> Answer {
                          disk_.journal.push_back({id, write.term, a});
                          return RecordDurable{a.number};
                        },
                        [&](const StoreStage& a) -> Answer {
                          Result<StageStored> stored = member.compute->save(a.step, a.stage);
                          if (stored.ok()) return std::move(stored).value();
                          finding_ = stored.status();
                          return std::nullopt;
                        },
                        [&](const StoreManifest& a) -> Answer {
                          disk_.checkpoints.push_back({a.state, a.files});
                          return CheckpointDurable{Step(a.state.step)};
                        },
                        [&](const LoadManifest&) -> Answer {
                          const RestartPoint* newest = disk_.newest();
                          if (newest == nullptr) return ManifestLoaded{};
                          return ManifestLoaded{*newest};
                        },
                        [&](const LoadStage& a) -> Answer { return loaded(member, a); },
                        [&](const StoreEnd& a) -> Answer {
                          disk_.ended = EndMessage{a.code, a.why};
                          disk_.ended_in = write.term;
                          return EndDurable{};
                        },
                        [](const auto&) -> Answer { return std::nullopt; },
                    },
                    write.write);
}

std::optional<Event> VirtualWorld::loaded(Member& member, const LoadStage& load) {
  const auto& all = disk_.checkpoints;
  const auto of_step = [&](const RestartPoint& c) { return c.state.step == load.step.value; };
  const auto found = std::find_if(all.begin(), all.end(), of_step);
  if (load.step.value >= 0 && found == all.end()) {
    finding_ =
        Status::failed(format("a stage was to be loaded as of step %lld, which is on no disk",
                              static_cast<long long>(load.step.value)));
    return std::nullopt;
  }
  finding_ = member.compute->load(load.stage, found == all.end() ? ResumeState() : found->state);
  if (!finding_.ok()) return std::nullopt;
  return StageLoaded{load.incarnation, load.stage};
}

std::string VirtualWorld::waiting_for() const {
  std::string text;
  for (const auto& [id, member] : members_) {
    if (!member.acts()) continue;
    text += format("peer %d: ", id.value) + member.peer->waiting_for() + "\n";
  }
  return text;
}

}  // namespace swarmpi
