#include "simulation/world.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/overloaded.hpp"
#include "core/prefetch.hpp"
#include "protocol/messages/all_ports.hpp"
#include "protocol/messages/ending.hpp"
#include "protocol/step/restart_point.hpp"

namespace swarmpi {
void VirtualWorld::add(PeerId id, std::unique_ptr<Peer> peer, VirtualCompute& compute,
                       double start_s, double clock_offset_s) {
  const auto index = static_cast<std::size_t>(id.value);
  if (index >= members_.size()) {
    members_.resize(index + 1);
    peers_.resize(index + 1);
    died_.resize(index + 1);
  }
  SWARMPI_CHECK(!members_[index], "the id of a peer is never used again");
  members_[index] = std::make_unique<Member>();
  Member& member = *members_[index];
  member.id = id;
  ++active_;
  member.peer = std::move(peer);
  peers_[index] = member.peer.get();
  member.compute = &compute;
  member.start = std::max(to_ns(start_s), now_);
  member.clock_offset_s = clock_offset_s;
  push(member.start, id, Started{});
}

bool VirtualWorld::kill(PeerId id) {
  Member& victim = this->member(id);
  if (!victim.is_active()) return false;
  victim.peer.reset();
  peers_[static_cast<std::size_t>(id.value)] = nullptr;
  died_[static_cast<std::size_t>(id.value)] = true;
  --active_;
  if (collectives_) collectives_->died(id);
  if (!victim.declared_dead) tell_of_death(id);
  return true;
}

void VirtualWorld::tell_of_death(PeerId id) {
  for (const auto& other : members_) {
    if (!other || !other->is_active() || other->id == id) continue;
    if (dead(id)) other->forget(id);
    const DeathPropagation spread = links_.death_propagation(id, other->id);
    const Nanoseconds last = after(spread.messages_until_s);
    if (dead(id) && last != kNever) last_arrival_from_dead_[{id, other->id}] = last;
    push(std::max(after(spread.loss_known_s), other->start), other->id, PeerLost{id});
  }
  observers_.died(now_s(), id);
}

void VirtualWorld::stop(PeerId id, double duration_s, bool with_its_host) {
  Member& member = this->member(id);
  const Nanoseconds until = after(duration_s);
  member.stopped_until = std::max(member.stopped_until, until);
  all_go_on_ = std::max(all_go_on_, until);
  if (with_its_host) member.host_stopped_until = std::max(member.host_stopped_until, until);
}

void VirtualWorld::hang_loop(PeerId id, double duration_s) {
  stop(id, duration_s);
  Member& member = this->member(id);
  member.trickles_until = std::max(member.trickles_until, after(duration_s));
}

void VirtualWorld::hang_jobs(PeerId id, double duration_s) {
  Member& member = this->member(id);
  if (member.jobs_hang_until <= now_) member.jobs_hang_since = now_;
  member.jobs_hang_until = std::max(member.jobs_hang_until, after(duration_s));
  all_go_on_ = std::max(all_go_on_, member.jobs_hang_until);
}

void VirtualWorld::hang_disk(PeerId id, double duration_s) {
  Member& member = this->member(id);
  member.disk_hangs_until = std::max(member.disk_hangs_until, after(duration_s));
  all_go_on_ = std::max(all_go_on_, member.disk_hangs_until);
}

void VirtualWorld::declare_dead(PeerId id) {
  Member& member = this->member(id);
  if (!member.is_active() || std::exchange(member.declared_dead, true)) return;
  tell_of_death(id);
}

bool VirtualWorld::flip(PeerId id, StageId stage) {
  Member& member = this->member(id);
  return member.is_active() && member.compute->flip(stage);
}

void VirtualWorld::cut(PeerId from, PeerId to, double duration_s, bool reachable) {
  const Cut cut{after(duration_s), reachable};
  const auto [entry, fresh] = cuts_.try_emplace(std::pair(from, to), cut);
  if (fresh) return;
  if (entry->second.until < now_) entry->second.reachable = true;
  entry->second.until = std::max(entry->second.until, cut.until);
  entry->second.reachable = entry->second.reachable && reachable;
}

const VirtualWorld::Cut* VirtualWorld::cut_of(PeerId from, PeerId to) const {
  if (cuts_.empty()) return nullptr;
  const auto cut = cuts_.find(std::pair(from, to));
  return cut == cuts_.end() || cut->second.until < now_ ? nullptr : &cut->second;
}

void VirtualWorld::post(double at_s, PeerId to, Event event) {
  push(std::max({to_ns(at_s), now_, member(to).start}), to, std::move(event));
}

std::vector<PeerId> VirtualWorld::active_peers() const {
  std::vector<PeerId> active;
  for (const auto& member : members_) {
    if (member && member->is_active()) active.push_back(member->id);
  }
  return active;
}

bool VirtualWorld::step() {
  while (violation_.ok() && !queue_.empty()) {
    now_ = queue_.next_time();
    Member& member = this->member(queue_.next_peer());
    const Nanoseconds held = held_until(member, queue_.next());
    if (held > now_) {
      queue_.postpone(held);
      continue;
    }
    const auto slot = queue_.take();
    prefetch_next();
    const bool delivered = happen(member, queue_.item(slot));
    queue_.item(slot).emplace<TimerEnd>();
    queue_.release(slot);
    if (delivered) return violation_.ok();
  }
  return false;
}

// Large swarms do not fit into caches: what the next event needs comes while this one is handled.
void VirtualWorld::prefetch_next() {
  if (queue_.empty()) return;
  queue_.prefetch_next();
  const auto next = static_cast<std::size_t>(queue_.next_peer().value);
  if (next >= members_.size()) return;
  prefetch(members_[next].get());
  prefetch(peers_[next]);
}

bool VirtualWorld::happen(Member& member, Pending& next) {
  if (auto* leaving = std::get_if<Leaving>(&next)) {
    if (!dead(member.id)) leave(member.id, member, leaving->send, leaving->delivery);
    return false;
  }
  if (const auto* delivery = std::get_if<KillDelivery>(&next)) {
    deliver_kill(member.id, member, *delivery);
    return false;
  }
  const auto* written = std::get_if<Written>(&next);
  if (!member.is_active()) {
    if (written != nullptr && dead(member.id)) written_after_death(member.id, member, *written);
    return false;
  }
  if (const auto* tick = std::get_if<VirtualCollectives::Tick>(&next)) {
    push(collectives_->comes(now_s(), member.id, *tick, living_computes()));
    return false;
  }
  if (const auto* timer = std::get_if<TimerEnd>(&next)) {
    if (timer->number != member.timers) return false;
    dispatch(member.id, member, TimerDue{});
    return true;
  }
  if (written != nullptr) {
    const std::optional<Event> event = event_of(member, *written);
    if (event) dispatch(member.id, member, *event);
    return event.has_value();
  }
  const Event& event = std::get<Event>(next);
  if (lost_with_sender(member.id, event)) return false;
  dispatch(member.id, member, event);
  return true;
}

Nanoseconds VirtualWorld::held_until(const Member& member, const Pending& next) {
  if (now_ >= all_go_on_) return now_;
  if (held_by_stop(member, next)) return member.stopped_until;
  // Those of a killed peer keep their order, too.
  if (std::holds_alternative<Written>(next)) return member.disk_hangs_until;
  if (!member.is_active()) return now_;
  if (const Nanoseconds until = held_by_trickle(member.id, next); until > now_) return until;
  const auto* event = std::get_if<Event>(&next);
  const bool job = event != nullptr && holds_alternative<JobFinished>(*event);
  return job ? member.jobs_hang_until : now_;
}

bool VirtualWorld::held_by_stop(const Member& member, const Pending& next) const {
  const bool goes_on =
      std::holds_alternative<KillDelivery>(next) || std::holds_alternative<Leaving>(next);
  // Writes of a killed peer keep their order, so they wait, too.
  const bool concerns = member.is_active() || std::holds_alternative<Written>(next);
  return concerns && !goes_on && now_ < member.stopped_until;
}

Nanoseconds VirtualWorld::held_by_trickle(PeerId to, const Pending& next) {
  constexpr Nanoseconds kPieces = 8;  // of what is left of the hang
  const auto* event = std::get_if<Event>(&next);
  const auto* arrived = event == nullptr ? nullptr : get_if<MessageArrived>(event);
  if (arrived == nullptr) return now_;
  Member& sender = member(arrived->from);
  if (sender.trickles_until <= now_ || arrived->from == to) return now_;
  Nanoseconds& next_at = sender.next_arrival[to];
  if (next_at > now_) return next_at;
  next_at = now_ + (sender.trickles_until - now_) / kPieces;
  return now_;
}

std::optional<Event> VirtualWorld::event_of(Member& member, const Written& write) {
  Member::DiskLane& lane = member.disk[write.lane];
  ++lane.calls;
  if (write.abandoned != lane.abandoned()) {
    written_late(member.id, member, write);
    return std::nullopt;
  }
  ++lane.ended;
  return written(member.id, member, write);
}

bool VirtualWorld::lost_with_sender(PeerId to, const Event& event) const {
  const auto* arrived = get_if<MessageArrived>(&event);
  if (arrived == nullptr || !died_[static_cast<std::size_t>(arrived->from.value)]) return false;
  const auto last = last_arrival_from_dead_.find({arrived->from, to});
  return last != last_arrival_from_dead_.end() && now_ > last->second;
}

// Observers may kill the peer at each of their calls.
void VirtualWorld::dispatch(PeerId id, Member& member, const Event& event) {
  ++events_;
  observers_.happened(now_s(), id, event);
  if (!member.peer) return;
  member.peer->set_carried(member.carried.until(now_s()));
  Actions actions = member.peer->handle(event, now_s() + member.clock_offset_s);
  for (Action& action : actions) {
    observers_.asked(now_s(), id, action);
    if (!member.peer) return;
    carry_out(id, member, action);
  }
  observers_.handled(now_s(), id);
}

void VirtualWorld::carry_out(PeerId from, Member& member, Action& action) {
  visit(Overloaded{
            [&](Send& a) { send(from, member, a); },
            [&](const StartJob& a) { start(from, member, a.job); },
            [&](const SetTimer& a) {
              push(world_time(a.due_s, member), from, TimerEnd{++member.timers});
            },
            [&](const KillPeer& a) { order_kill(from, a.peer); },
            [&](const SpawnPeer&) {
              post(now_s(), from, SpawnFailed{"a virtual world starts no processes"});
            },
            [&](const Finish&) {
              member.finished = true;
              --active_;
            },
            [&](const MakeCollectiveId& a) { push(collectives_->asked(now_s(), from, a)); },
            [&](const MakeCollective& a) { push(collectives_->asked(now_s(), from, a)); },
            [&](const EnterCollective& a) {
              auto comes = collectives_->asked(now_s(), from, *member.compute, a);
              if (comes.ok()) return push(std::move(comes).value());
              if (violation_.ok()) violation_ = comes.status();
            },
            [&](const AbortCollective& a) {
              push(collectives_->asked(now_s(), from, *member.compute, a));
            },
            [&](const ProbeWork&) { post(now_s(), from, progress_of(member)); },
            [&](const AbandonLane& a) {
              Member::DiskLane& lane = member.disk[a.lane];
              lane.under_way.push_back(lane.ended);
              lane.asked = lane.ended = 0;
            },
            [&](const auto&) { write(from, member, action); },
        },
        action);
}

// ---- Kills that peers order

void VirtualWorld::order_kill(PeerId by, PeerId victim) {
  const Cut* cut = cut_of(by, victim);
  if (cut != nullptr && !cut->reachable) {
    push(after(links_.kill_delivery_s(by, victim)), by, KillFailed{victim});
  } else {
    push(after(links_.kill_delivery_s(by, victim)), victim, KillDelivery{by});
  }
}

void VirtualWorld::deliver_kill(PeerId victim, Member& member, const KillDelivery& delivery) {
  if (now_ < member.host_stopped_until) return;  // those that were told are stopped, too
  if (member.is_active()) {
    kill(victim);
  } else if (this->member(delivery.by).is_active()) {
    post(now_s(), delivery.by, PeerLost{victim});  // it has finished or is dead
  }
}

// A timer must not end early by a rounding error: the peer would set it again, for ever.
Nanoseconds VirtualWorld::world_time(double clock_s, const Member& member) const {
  Nanoseconds at = std::max(now_, to_ns(clock_s - member.clock_offset_s));
  while (to_s(at) + member.clock_offset_s < clock_s) ++at;
  return at;
}

void VirtualWorld::send(PeerId from, Member& member, Send& send) {
  Member* const to = find(send.to);
  if (to == nullptr || !to->is_active()) return;
  const Delivery delivery = links_.deliver(from, send.to, send.message, now_s());
  if (delivery.copies == 0) return;
  Nanoseconds& leaves = member.last(send.to, send.message).leaves;
  if (leaves < now_ && delivery.waits_s == 0) return leave(from, member, send, delivery);
  leaves = std::max(leaves, after(delivery.waits_s));
  if (may_be_awaited(send.message)) {
    member.carried.add(now_s(), to_s(leaves));
    to->carried.add(now_s(), to_s(leaves));
  }
  push(leaves, from, Leaving{std::move(send), delivery});
}

void VirtualWorld::leave(PeerId from, Member& member, Send& send, const Delivery& delivery) {
  Member* const to = find(send.to);
  if (!to->is_active()) return;
  const Cut* cut = cut_of(from, send.to);
  if (cut != nullptr && cut->until == kNever) return;
  const Nanoseconds begins = cut == nullptr ? now_ : cut->until;
  const double takes_s = links_.takes_s(from, send.to, send.message, delivery, now_s());
  Nanoseconds& last = member.last(send.to, send.message).arrives;
  const Nanoseconds takes = to_ns(takes_s);
  if (takes == kNever) return;
  last = std::max({last, begins + takes, to->start});
  if (send.to != from && may_be_awaited(send.message)) {
    member.carried.add(now_s(), to_s(last));
    to->carried.add(now_s(), to_s(last));
  }
  for (int copy = 1; copy < delivery.copies; ++copy) {
    push(last, send.to, MessageArrived{from, send.message});
  }
  push(last, send.to, MessageArrived{from, std::move(send.message)});
}

void VirtualWorld::start(PeerId id, Member& member, const Job& job) {
  const bool frees = holds_alternative<ApplyJob>(job);
  if (frees && collectives_ && collectives_->reads_sums(id, stage_of(job)) && violation_.ok()) {
    violation_ = Status::failed(
        fmt::format("peer {} frees the sums of stage {} while its collective reads them", id.value,
                    stage_of(job).value));
  }
  Result<JobResult> result = member.compute->execute(job);
  if (!result.ok()) {
    if (violation_.ok()) violation_ = result.status();
    return;
  }
  const double duration_s = costs_.seconds(id, job);
  push(after(duration_s), id, JobFinished{std::move(result).value(), duration_s});
}

void VirtualWorld::push(VirtualCollectives::All all) {
  for (VirtualCollectives::Coming& coming : all) {
    const Nanoseconds at = std::max(to_ns(coming.at_s), now_);
    std::visit([&](auto& what) { push(at, coming.peer, std::move(what)); }, coming.what);
  }
}

VirtualCollectives::Computes VirtualWorld::living_computes() const {
  VirtualCollectives::Computes computes;
  for (const auto& member : members_) {
    if (member && member->is_active()) computes[member->id] = member->compute;
  }
  return computes;
}

void VirtualWorld::write(PeerId id, Member& member, Action& action) {
  if (member.disk_failed) return;
  if (const auto* load = get_if<LoadStage>(&action)) member.loads_for = load->incarnation.value;
  const Lane which = lane_of(action).value();
  Member::DiskLane& lane = member.disk[which];
  const WriteAnswer answer = disks_.write(id, action);
  lane.free = std::max(lane.free, now_) + to_ns(answer.seconds);
  if (answer.status.ok()) {
    push(lane.free, id,
         Written{std::move(action), member.term, answer.outlives_writer, which, lane.abandoned(),
                 lane.asked++});
  } else {
    member.disk_failed = true;
    push(lane.free, id, StorageFailed{answer.status});
  }
}

// CPU time is all time in which jobs do not hang.
WorkProbed VirtualWorld::progress_of(const Member& member) const {
  const bool hangs = member.disk_hangs_until > now_;
  const auto of = [&](Lane lane) {
    const auto found = member.disk.find(lane);
    if (found == member.disk.end()) return LaneProgress{};
    const Member::DiskLane& own = found->second;
    const bool runs = own.pending() > 0 || (hangs && own.abandoned() > 0);
    return LaneProgress{own.calls, own.calls, runs ? "a write" : ""};
  };
  const double cpu_s = to_s(member.jobs_hang_until > now_ ? member.jobs_hang_since : now_);
  return {cpu_s, of(Lane::run), of(Lane::stages)};
}

// Writes are synced in order: after the first that is lost all later ones are. The file of a stage
// counts only with a manifest, so it is dropped.
void VirtualWorld::written_after_death(PeerId id, Member& member, const Written& write) {
  if (write.abandoned != member.disk[write.lane].abandoned())
    return written_late(id, member, write);
  if (!write.outlives_writer) member.disk_failed = true;
  const bool counts =
      !holds_alternative<StoreStage>(write.write) && !holds_alternative<LoadStage>(write.write);
  if (!member.disk_failed && counts) (void)written(id, member, write);
}

// The call that hung when its writer gave it up may be done when it returns; whether the writer's
// term is over was asked before it. No manifest names the part of a stage that came so late.
void VirtualWorld::written_late(PeerId id, Member& member, const Written& write) {
  const Member::DiskLane& lane = member.disk[write.lane];
  const auto generation = static_cast<std::size_t>(write.abandoned);
  if (!write.outlives_writer || lane.under_way[generation] != write.number) return;
  const bool lands =
      holds_alternative<CreateTerm>(write.write) || holds_alternative<StoreRecord>(write.write) ||
      holds_alternative<StoreManifest>(write.write) || holds_alternative<StoreEnd>(write.write);
  if (!lands) return;
  (void)carried_out(id, member, write);
  ++disk_.mishaps.landed_late;
}

// A leader's write is refused once a later term exists. Writes of a dead leader may come late.
bool VirtualWorld::term_is_over(const Member& member, const Written& write) const {
  const bool leads = holds_alternative<StoreRecord>(write.write) ||
                     holds_alternative<StoreManifest>(write.write) ||
                     holds_alternative<StoreEnd>(write.write);
  return leads && member.is_active() && write.term < *disk_.terms.rbegin();
}

std::optional<Event> VirtualWorld::written(PeerId id, Member& member, const Written& write) {
  if (term_is_over(member, write)) return TermOver{write.term, *disk_.terms.rbegin()};
  std::optional<Event> event = carried_out(id, member, write);
  const auto* created = event ? get_if<TermCreated>(&*event) : nullptr;
  if (created == nullptr || !created->created) return event;
  member.term = created->term;
  const Term newest = *disk_.terms.rbegin();
  if (!disk_.strangers.contains(newest) || newest < created->term) return event;
  // Storage that publishes or proves the term as it creates it tells of this first, or right after.
  const TermOver over{created->term, newest};
  const bool first = created->term.value % 2 == 0;
  post(now_s(), id, first ? *event : Event(over));
  return first ? Event(over) : std::move(event);
}

std::optional<Event> VirtualWorld::carried_out(PeerId id, Member& member, const Written& write) {
  using Answer = std::optional<Event>;
  return visit(Overloaded{
                   [&](const CreateTerm& a) -> Answer {
                     if (disk_.has_ended()) return TermCreated{a.term, false, disk_.ended};
                     return TermCreated{a.term, disk_.create(a.term)};
                   },
                   [&](const StoreRecord& a) -> Answer {
                     disk_.append(id, write.term, a);
                     return RecordDurable{a.number};
                   },
                   [&](const StoreStage& a) -> Answer {
                     Result<StageStored> stored = member.compute->save(a.step, a.stage);
                     if (stored.ok()) return std::move(stored).value();
                     violation_ = stored.status();
                     return std::nullopt;
                   },
                   [&](const StoreManifest& a) -> Answer {
                     const Step step(a.state.step);
                     if (disks_.loses_part()) {
                       ++disk_.mishaps.parts_lost;
                       return CheckpointDropped{step, 0, "a part is not there"};
                     }
                     disk_.keep({a.state, a.files});
                     return CheckpointDurable{step};
                   },
                   [&](const LoadManifest& a) -> Answer { return loaded(id, a); },
                   [&](const LoadStage& a) -> Answer { return loaded(member, a); },
                   [&](const StoreEnd& a) -> Answer {
                     if (disk_.ended && write.term < disk_.ended_in) return EndDurable{};
                     disk_.ended = std::make_shared<const EndMessage>(EndMessage{a.code, a.why});
                     disk_.ended_in = write.term;
                     if (disk_.sink != nullptr) disk_.sink->ended(write.term, a);
                     return EndDurable{};
                   },
                   [](const StoreProbe&) -> Answer { return ProbeStored{}; },
                   [](const auto&) -> Answer { return std::nullopt; },
               },
               write.write);
}

// A flipped bit is seen by whoever reads the file, one that was cut off by a look at its end.
Event VirtualWorld::loaded(PeerId id, const LoadManifest& load) {
  using Damage = DiskModel::Damage;
  const auto manifest = [this] {
    const RestartPoint* const newest = disk_.newest();
    return newest == nullptr ? ManifestLoaded{} : ManifestLoaded{*newest};
  };
  const Damage damage = disk_.has_older() ? disks_.damages_newest() : Damage::none;
  if (disk_.newest() == nullptr) return manifest();
  const RestartPoint& newest = *disk_.newest();
  const std::int64_t step = newest.state.step;
  const VirtualDisk::Part part{step, step % std::ssize(newest.files)};
  if (damage == Damage::bit) disk_.flipped_bits.insert(part);
  if (damage == Damage::misread) disk_.misread.insert(part);
  if (damage == Damage::bit || damage == Damage::cut_off) ++disk_.mishaps.damages;
  const bool seen = load.proves && disk_.is_damaged(step);
  if (!seen && damage != Damage::cut_off) return manifest();
  disk_.set_aside(step);
  post(now_s(), id, manifest());
  return CheckpointDamaged{Step(step), seen ? "a bit has flipped" : "it is cut off"};
}

// What a peer that was declared dead has slept over may be gone when it wakes up.
std::optional<Event> VirtualWorld::loaded(Member& member, const LoadStage& load) {
  if (load.incarnation.value < member.loads_for) return StageLoaded{load.incarnation, load.stage};
  const auto& all = disk_.checkpoints;
  const auto of_step = [&](const RestartPoint& c) { return c.state.step == load.step.value; };
  const auto found = std::find_if(all.begin(), all.end(), of_step);
  const auto refused = [&](const char* why) {
    ++disk_.mishaps.refused;
    return StageLoaded{load.incarnation, load.stage, true, why};
  };
  if (found == all.end() && disk_.were_set_aside.contains(load.step.value)) {
    return refused("it was set aside");
  }
  if (load.step.value >= 0 && found == all.end()) {
    if (member.declared_dead) return StorageFailed{Status::stopped("the checkpoint is gone")};
    violation_ = Status::failed(
        fmt::format("a stage was to be loaded as of step {}, of which there is no checkpoint",
                    load.step.value));
    return std::nullopt;
  }
  const VirtualDisk::Part part{load.step.value, load.stage.value};
  if (disk_.flipped_bits.contains(part)) return refused("a bit has flipped");
  if (disk_.misread.erase(part) > 0) return refused("a bit was misread");
  if (!member.compute->has_room(load.stage)) {
    return StageLoaded{load.incarnation, load.stage, false};
  }
  violation_ = member.compute->load(load.stage, found == all.end() ? ResumeState() : found->state,
                                    load.ownership);
  if (!violation_.ok()) return std::nullopt;
  return StageLoaded{load.incarnation, load.stage};
}

std::string VirtualWorld::waiting_for() const {
  std::string text;
  for (const auto& member : members_) {
    if (!member || !member->is_active()) continue;
    text += fmt::format("peer {}: {}\n", member->id.value, member->peer->waiting_for());
  }
  return text;
}

}  // namespace swarmpi
