#include "transport/mpi_transport.hpp"

#include <algorithm>
#include <cstdio>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "transport/mpi_transport_parts.hpp"
#include "transport/wire.hpp"

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
      ends(session.spawned() ? Ends(mpi.parent, 1, -1) : Ends(mpi.swarm, mpi.ranks, mpi.rank)),
      sleeper(options.longest_sleep_s),
      requests(mpi.watchdog, ends),
      outgoing(requests, doorbell, options.fragment_bytes, options.fragments_in_flight, counters),
      incoming(requests, payloads, options.fragments_in_flight, counters),
      residents(ends.self(), ends.size(), [this](PeerId peer) { return end_of(peer); }),
      fate(options.fate) {
  for (int end = 0; end < ends.size(); ++end) {
    if (end != ends.self()) open(end);
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
  const PeerId self = residents.self();
  if (to == self) {
    events.emplace_back(MessageArrived{to, std::move(message)});
  } else if (is_cut_off() || !held_letters.empty()) {
    held_letters.emplace_back(to, std::move(message));
  } else if (const int rank = residents.reach(to); rank >= 0) {
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
  if (happened) sleeper.stir();
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
      std::optional<Incoming::Letter> letter = incoming.received(done);
      if (!letter) return;
      if (letter->address.to != residents.self()) return relay(std::move(*letter), done.end);
      residents.heard(letter->address.from);
      happen(MessageArrived{letter->address.from, std::move(letter->message)});
  }
}

// To or from a process that was started here. Else it was for one who has died.
void MpiTransport::Parts::relay(Incoming::Letter letter, int from) {
  if (children.empty()) return;
  const int end = residents.reach(letter.address.to);
  if (end >= 0 && end != from) return outgoing.send(end, letter.address, pack(letter.message));
  if (from >= mpi.ranks) note(from, Note::Kind::died, letter.address.to.value);
}

void MpiTransport::Parts::take(const Note& note, int from) {
  switch (note.kind) {
    case Note::Kind::kill_process:
      kill_process(processes.at(static_cast<std::size_t>(note.about)));
      return;
    case Note::Kind::kill_peer:
      if (PeerId(note.about) != residents.self()) return order_to_kill(PeerId(note.about));
      if (fate != nullptr && !is_cut_off()) fate->dead = true;
      return;
    case Note::Kind::died:
      if (!residents.bury(PeerId(note.about))) return;
      if (!children.empty()) note_all(Note::Kind::died, note.about, from);
      return tell_of_death(PeerId(note.about));
    case Note::Kind::parted:
    case Note::Kind::parted_after_the_end:
      residents.parted(from, note.kind == Note::Kind::parted_after_the_end);
      // Whoever is still here came too late.
      if (fate != nullptr && residents.all_others_parted() && residents.anybody_saw_the_end()) {
        fate->dead = true;
      }
      return;
  }
}

// Any error ends the stream: a piece is missing from then on.
void MpiTransport::Parts::lose(int end, int error) {
  const bool known = residents.lost(end);
  if (known || std::find(losses.begin(), losses.end(), end) != losses.end()) return;
  mpi.lost_a_rank = true;
  losses.push_back(end);
  if (tells_of_a_lost_rank(error)) return;
  std::fprintf(stderr, "swarmpi: rank %d gives up rank %d: %s\n", mpi.rank, end,
               mpi_error_text(error).c_str());
}

void MpiTransport::Parts::lose_all_at(int end) {
  // Without the one that has started it this process can reach nobody.
  if (mpi.parent != MPI_COMM_NULL) fate->dead = true;
  for (const PeerId peer : residents.lose(end)) {
    tell_of_death(peer);
    // Others have no other way to hear of those whom this process has started, nor these of
    // anybody.
    const bool concerns_all = children.erase(peer) > 0;
    if (concerns_all || !children.empty()) note_all(Note::Kind::died, peer.value);
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
  if (residents.must_hear_of(peer)) happen(PeerLost{peer});
}

void MpiTransport::Parts::heal() {
  for (Event& event : std::exchange(held_events, {})) events.push_back(std::move(event));
  for (auto& [to, message] : std::exchange(held_letters, {})) send(to, std::move(message));
  for (const PeerId dead : std::exchange(held_obituaries, {})) {
    note_all(Note::Kind::died, dead.value);
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
  const bool others_come = parts_->fate != nullptr || !parts_->options.spawned_arguments.empty();
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
    parts_->sleeper.set_busy(parts_->busy());
    parts_->sleeper.set_unheard(!parts_->doorbell.reaches_all());
    const bool woken =
        parts_->sleeper.sleep(wake_descriptor, parts_->doorbell.descriptor(), left_s);
    parts_->nothing_new = false;
    if (parts_->sleeper.rung()) {
      parts_->doorbell.silence();
      parts_->sleeper.stir();
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
    parts_->sleeper.set_busy(true);
    parts_->sleeper.sleep(-1, -1, left_s);
  }
}

TransportCounters MpiTransport::counters() const { return parts_->counters; }

// ---- Emulated preemption

void MpiTransport::fall_silent() {
  parts_->outgoing.recall();
  parts_->held_letters.clear();
  parts_->residents.bury(parts_->residents.self());
  parts_->residents.vacate();
}

void MpiTransport::announce_death(PeerId peer) {
  parts_->held_obituaries.push_back(peer);
  parts_->progress();
}

void MpiTransport::settle(PeerId self) {
  parts_->residents.settle(self);
  parts_->events.clear();
  parts_->held_events.clear();
}

void MpiTransport::part(bool after_the_end) {
  const Note::Kind kind = after_the_end ? Note::Kind::parted_after_the_end : Note::Kind::parted;
  parts_->note_all(kind, 0);
  parts_->residents.parted(parts_->mpi.rank, after_the_end);
}

bool MpiTransport::all_others_parted() const { return parts_->residents.all_others_parted(); }
bool MpiTransport::is_first() const {
  for (int rank = 0; rank < parts_->mpi.rank; ++rank) {
    if (!parts_->residents.lost(rank)) return false;
  }
  return true;
}
bool MpiTransport::anybody_saw_the_end() const { return parts_->residents.anybody_saw_the_end(); }

}  // namespace swarmpi
