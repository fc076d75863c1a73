#include "transport/mpi/mpi_transport.hpp"

#include <algorithm>
#include <cstdio>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "transport/mpi/mpi_transport_parts.hpp"
#include "transport/mpi/spawning.hpp"
#include "transport/mpi/tags.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi {
namespace {

// Completions in a row, without a look at anything else.
constexpr int kRounds = 64;
// Events taken in a row, while MPI is not looked at.
constexpr int kEventsWithoutProgress = 16;
constexpr double kGiveUpS = 0.5;

}  // namespace

MpiTransport::Parts::Parts(MpiSession& session, PayloadPool& payloads, MpiTransportOptions asked)
    : mpi(session.handles()),
      options(std::move(asked)),
      endpoints(session.spawned() ? Endpoints(mpi.parent, 1, -1)
                                  : Endpoints(mpi.swarm, mpi.ranks, mpi.rank)),
      backoff(options.longest_sleep_s),
      requests(mpi.watchdog, endpoints),
      outgoing(requests, doorbell, options.fragment_bytes, options.fragments_in_flight, counters),
      incoming(requests, payloads, options.fragments_in_flight, counters),
      directory(endpoints.self(), endpoints.size(), [this](PeerId peer) { return end_of(peer); }),
      emulated_process(options.emulated_process) {
  for (int end = 0; end < endpoints.size(); ++end) {
    if (end != endpoints.self()) open(end);
  }
  if (session.spawned()) {
    doorbell.know({""});
    return;
  }
  for (const std::string& process : session.gather(this_process().packed())) {
    processes.push_back(unpack_process(process));
  }
  doorbell.know(session.gather(options.doorbell ? doorbell.name() : ""));
}

void MpiTransport::Parts::open(int end) {
  outgoing.open(end);
  incoming.open(end);
  watch(end);
}

int MpiTransport::Parts::end_of(PeerId peer) const {
  if (mpi.parent != MPI_COMM_NULL) return 0;
  if (options.rank_of) return options.rank_of(peer);
  if (peer.value < mpi.ranks) return peer.value;
  if (const auto child = children.find(peer); child != children.end()) return child->second.end;
  const int rank = peer.value % mpi.ranks;
  return rank == mpi.rank ? -1 : rank;
}

void MpiTransport::Parts::send(PeerId to, Message message) {
  nothing_new = false;
  const PeerId self = directory.self();
  if (to == self) {
    events.emplace_back(MessageArrived{to, std::move(message)});
  } else if (is_cut_off() || !held_messages.empty()) {
    held_messages.emplace_back(to, std::move(message));
  } else if (const int rank = directory.reach(to); rank >= 0) {
    outgoing.send(rank, {self, to}, pack(message));
  } else {
    tell_of_death(to);
  }
}

// ---- What comes

bool MpiTransport::Parts::progress() {
  bool happened = false;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Completion>& done = requests.test();
    if (done.empty()) break;
    happened = true;
    for (const Completion& completion : done) take(completion);
  }
  // After what the lost ranks have said.
  for (const int end : std::exchange(losses, {})) {
    outgoing.drop(end);
    incoming.drop(end);
    lose_all_at(end);
  }
  if (!is_cut_off()) heal();
  outgoing.ring();
  if (happened) backoff.reset();
  nothing_new = !happened;
  return happened;
}

void MpiTransport::Parts::take(const Completion& done) {
  if (done.error != MPI_SUCCESS) return lose(done.end, done.error);
  switch (done.kind) {
    case RequestKind::send:
      return outgoing.sent(done.end);
    case RequestKind::note:
      return;
    case RequestKind::watch:
      take(*watched[static_cast<std::size_t>(done.end)], done.end);
      return watch(done.end);
    case RequestKind::head:
    case RequestKind::body:
      std::optional<Incoming::InboundMessage> inbound = incoming.received(done);
      if (!inbound) return;
      if (inbound->address.to != directory.self()) return relay(std::move(*inbound), done.end);
      directory.heard(inbound->address.from);
      happen(MessageArrived{inbound->address.from, std::move(inbound->message)});
  }
}

// To or from a process that was started here. Else it was for one who has died.
void MpiTransport::Parts::relay(Incoming::InboundMessage inbound, int from) {
  if (children.empty()) return;
  const int end = directory.reach(inbound.address.to);
  if (end >= 0 && end != from) return outgoing.send(end, inbound.address, pack(inbound.message));
  if (from >= mpi.ranks) note(from, ControlMessage::Kind::died, inbound.address.to.value);
}

void MpiTransport::Parts::take(const ControlMessage& note, int from) {
  switch (note.kind) {
    case ControlMessage::Kind::kill_process:
      kill_process(processes.at(static_cast<std::size_t>(note.about)));
      return;
    case ControlMessage::Kind::kill_peer:
      if (PeerId(note.about) != directory.self()) return order_to_kill(PeerId(note.about));
      if (emulated_process != nullptr && !is_cut_off()) emulated_process->dead = true;
      return;
    case ControlMessage::Kind::died:
      if (!directory.mark_dead(PeerId(note.about))) return;
      if (!children.empty()) note_all(ControlMessage::Kind::died, note.about, from);
      return tell_of_death(PeerId(note.about));
    case ControlMessage::Kind::parted:
    case ControlMessage::Kind::parted_after_the_end:
      directory.parted(from, note.kind == ControlMessage::Kind::parted_after_the_end);
      // Whoever is still here came too late.
      if (emulated_process != nullptr && directory.all_others_parted() &&
          directory.anybody_saw_the_end()) {
        emulated_process->dead = true;
      }
      return;
  }
}

// Any error ends the stream: a piece is missing from then on.
void MpiTransport::Parts::lose(int end, int error) {
  const bool known = directory.lost(end);
  if (known || std::find(losses.begin(), losses.end(), end) != losses.end()) return;
  mpi.lost_a_rank = true;
  losses.push_back(end);
  if (tells_of_a_lost_rank(error)) return;
  std::fprintf(stderr, "swarmpi: rank %d gives up rank %d: %s\n", mpi.rank, end,
               mpi_error_text(error).c_str());
}

void MpiTransport::Parts::lose_all_at(int end) {
  // Without the one that has started it this process can reach nobody.
  if (mpi.parent != MPI_COMM_NULL) emulated_process->dead = true;
  for (const PeerId peer : directory.lose(end)) {
    tell_of_death(peer);
    // Others have no other way to hear of those whom this process has started, nor these of
    // anybody.
    const bool concerns_all = children.erase(peer) > 0;
    if (concerns_all || !children.empty()) note_all(ControlMessage::Kind::died, peer.value);
  }
}

// What was held comes first, also after the link has healed.
void MpiTransport::Parts::happen(Event event) {
  if (is_cut_off() || !held_events.empty()) {
    held_events.push_back(std::move(event));
  } else {
    events.push_back(std::move(event));
  }
}

void MpiTransport::Parts::tell_of_death(PeerId peer) {
  if (directory.must_hear_of(peer)) happen(PeerLost{peer});
}

void MpiTransport::Parts::heal() {
  for (Event& event : std::exchange(held_events, {})) events.push_back(std::move(event));
  for (auto& [to, message] : std::exchange(held_messages, {})) send(to, std::move(message));
  for (const PeerId dead : std::exchange(held_death_notices, {})) {
    note_all(ControlMessage::Kind::died, dead.value);
  }
}

MpiTransport::MpiTransport(MpiSession& session, PayloadPool& payloads, MpiTransportOptions options)
    : parts_(std::make_unique<Parts>(session, payloads, std::move(options))) {}

MpiTransport::~MpiTransport() {
  parts_->end_spawned();
  parts_->requests.give_up(kGiveUpS);
}

void MpiTransport::send(PeerId to, Message message) {
  const bool is_rank = to.value >= 0 && to.value < parts_->mpi.ranks;
  const bool others_come =
      parts_->emulated_process != nullptr || !parts_->options.spawned_arguments.empty();
  SWARMPI_CHECK(is_rank || others_come, "there is no such rank");
  parts_->send(to, std::move(message));
}

std::optional<Event> MpiTransport::receive() {
  std::deque<Event>& events = parts_->events;
  if (events.empty() || ++parts_->events_without_progress > kEventsWithoutProgress) {
    parts_->progress();
    parts_->events_without_progress = 0;
  }
  if (events.empty()) return std::nullopt;
  Event event = std::move(events.front());
  events.pop_front();
  return event;
}

void MpiTransport::wait(int wake_descriptor, double timeout_s) {
  const WallClock clock;
  while (true) {
    if (!parts_->nothing_new) parts_->progress();
    const double left_s = timeout_s - clock.now_s();
    if (!parts_->events.empty() || left_s <= 0) return;
    parts_->backoff.set_busy(parts_->busy());
    parts_->backoff.set_unheard(!parts_->doorbell.reaches_all());
    const bool woken =
        parts_->backoff.sleep(wake_descriptor, parts_->doorbell.descriptor(), left_s);
    parts_->nothing_new = false;
    if (parts_->backoff.rung()) {
      parts_->doorbell.silence();
      parts_->backoff.reset();
    }
    if (woken) return;
  }
}

void MpiTransport::kill(PeerId peer) { parts_->order_to_kill(peer); }

void MpiTransport::spawn() { parts_->spawn(); }

bool MpiTransport::flush(double timeout_s) {
  const WallClock clock;
  while (true) {
    parts_->progress();
    if (parts_->outgoing.idle()) return true;
    const double left_s = timeout_s - clock.now_s();
    if (left_s <= 0) return false;
    parts_->backoff.set_busy(true);
    parts_->backoff.sleep(-1, -1, left_s);
  }
}

TransportCounters MpiTransport::counters() const { return parts_->counters; }

// ---- Emulated preemption

void MpiTransport::fall_silent() {
  parts_->outgoing.recall();
  parts_->held_messages.clear();
  parts_->directory.mark_dead(parts_->directory.self());
  parts_->directory.vacate();
}

void MpiTransport::announce_death(PeerId peer) {
  parts_->held_death_notices.push_back(peer);
  parts_->progress();
}

void MpiTransport::admit(PeerId self) {
  parts_->directory.admit(self);
  parts_->events.clear();
  parts_->held_events.clear();
}

void MpiTransport::part(bool after_the_end) {
  const ControlMessage::Kind kind =
      after_the_end ? ControlMessage::Kind::parted_after_the_end : ControlMessage::Kind::parted;
  parts_->note_all(kind, 0);
  parts_->directory.parted(parts_->mpi.rank, after_the_end);
}

bool MpiTransport::all_others_parted() const { return parts_->directory.all_others_parted(); }
bool MpiTransport::is_first() const {
  for (int rank = 0; rank < parts_->mpi.rank; ++rank) {
    if (!parts_->directory.lost(rank)) return false;
  }
  return true;
}
bool MpiTransport::anybody_saw_the_end() const { return parts_->directory.anybody_saw_the_end(); }

// ---- Control messages, and processes that are started
// Notes from process to process: who has died, who is to be killed; and processes that are started
// from here.

namespace {

// For processes that were started from here to end.
constexpr double kEndS = 0.5;

}  // namespace

void MpiTransport::Parts::watch(int end) {
  const auto place = static_cast<std::size_t>(end);
  const auto note = std::make_shared<ControlMessage>();
  if (watched.size() <= place) watched.resize(place + 1);
  watched[place] = note;
  requests.receive(RequestKind::watch, end, kWatchTag, reinterpret_cast<std::byte*>(note.get()),
                   sizeof(ControlMessage), note);
}

void MpiTransport::Parts::note(int end, ControlMessage::Kind kind, int about) {
  const auto note = std::make_shared<ControlMessage>(ControlMessage{kind, about});
  requests.send(RequestKind::note, end, kWatchTag, reinterpret_cast<const std::byte*>(note.get()),
                sizeof(ControlMessage), note);
  doorbell.ring(end);
}

void MpiTransport::Parts::note_all(ControlMessage::Kind kind, int about, int but) {
  for (int end = 0; end < endpoints.size(); ++end) {
    if (end != endpoints.self() && end != but && !directory.lost(end)) note(end, kind, about);
  }
}

void MpiTransport::Parts::order_to_kill(PeerId peer) {
  if (emulated_process == nullptr && peer.value < mpi.ranks)
    return order_to_kill_process(peer.value);
  const int end = directory.reach(peer);
  const auto child = children.find(peer);
  if (is_cut_off()) {
    events.emplace_back(KillFailed{peer});
  } else if (end < 0) {
    tell_of_death(peer);
  } else if (child == children.end() || !kill_process(child->second.process)) {
    note(end, ControlMessage::Kind::kill_peer, peer.value);
  }
}

void MpiTransport::Parts::order_to_kill_process(int victim) {
  const Process& process = processes.at(static_cast<std::size_t>(victim));
  if (kill_process(process)) return;
  bool asked = false;
  for (int rank = 0; rank < mpi.ranks; ++rank) {
    const Process& other = processes[static_cast<std::size_t>(rank)];
    const bool there = other.host == process.host && !process.host.empty();
    if (rank == victim || rank == mpi.rank || directory.lost(rank) || !there) continue;
    note(rank, ControlMessage::Kind::kill_process, victim);
    asked = true;  // all of them: some may be stopped, or dying
  }
  if (!asked) events.emplace_back(KillFailed{PeerId(victim)});
}

// ---- Processes that are started from here

void MpiTransport::Parts::spawn() {
  if (options.spawned_arguments.empty()) {
    events.emplace_back(SpawnFailed{"this rank starts no others"});
    return;
  }
  const WallClock clock;
  ++started;
  const PeerId peer(mpi.rank + mpi.ranks * started);
  Result<StartedProcess> process =
      start_process(mpi.watchdog, options.spawned_arguments, options.start_info(peer));
  if (!process.ok()) {
    events.emplace_back(SpawnFailed{process.status().message()});
    return;
  }
  const int end = endpoints.add({process.value().comm, 0});
  directory.add_end();
  doorbell.know_too("");
  children[peer] = {end, process.value().process};
  directory.heard(peer);
  open(end);
  for (const PeerId dead : directory.dead()) note(end, ControlMessage::Kind::died, dead.value);
  events.emplace_back(PeerSpawned{peer, clock.now_s()});
}

void MpiTransport::Parts::end_spawned() {
  for (const auto& [peer, child] : children)
    note(child.end, ControlMessage::Kind::kill_peer, peer.value);
  const WallClock clock;
  while (!children.empty() && clock.now_s() < kEndS) {
    if (!progress()) backoff.sleep(-1, -1, kEndS);
  }
}

}  // namespace swarmpi
