// Notes from process to process: who has died, who is to be killed; and processes that are started
// from here.

#include "core/clock.hpp"
#include "transport/mpi_transport_parts.hpp"
#include "transport/spawning.hpp"
#include "transport/tags.hpp"

namespace swarmpi {
namespace {

// For processes that were started from here to end.
constexpr double kEndS = 0.5;

}  // namespace

void MpiTransport::Parts::watch(int end) {
  const auto place = static_cast<std::size_t>(end);
  const auto note = std::make_shared<Note>();
  if (watched.size() <= place) watched.resize(place + 1);
  watched[place] = note;
  requests.receive(RequestKind::watch, end, kWatchTag, reinterpret_cast<std::byte*>(note.get()),
                   sizeof(Note), note);
}

void MpiTransport::Parts::note(int end, Note::Kind kind, int about) {
  const auto note = std::make_shared<Note>(Note{kind, about});
  requests.send(RequestKind::note, end, kWatchTag, reinterpret_cast<const std::byte*>(note.get()),
                sizeof(Note), note);
  doorbell.ring(end);
}

void MpiTransport::Parts::note_all(Note::Kind kind, int about, int but) {
  for (int end = 0; end < ends.size(); ++end) {
    if (end != ends.self() && end != but && !residents.lost(end)) note(end, kind, about);
  }
}

void MpiTransport::Parts::order_to_kill(PeerId peer) {
  if (fate == nullptr && peer.value < mpi.ranks) return order_to_kill_process(peer.value);
  const int end = residents.reach(peer);
  const auto child = children.find(peer);
  if (is_cut_off()) {
    events.emplace_back(KillFailed{peer});
  } else if (end < 0) {
    tell_of_death(peer);
  } else if (child == children.end() || !kill_process(child->second.process)) {
    note(end, Note::Kind::kill_peer, peer.value);
  }
}

void MpiTransport::Parts::order_to_kill_process(int victim) {
  const Process& process = processes.at(static_cast<std::size_t>(victim));
  if (kill_process(process)) return;
  bool asked = false;
  for (int rank = 0; rank < mpi.ranks; ++rank) {
    const Process& other = processes[static_cast<std::size_t>(rank)];
    const bool there = other.host == process.host && !process.host.empty();
    if (rank == victim || rank == mpi.rank || residents.lost(rank) || !there) continue;
    note(rank, Note::Kind::kill_process, victim);
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
      start_process(mpi.watchdog, options.spawned_arguments, options.hello(peer));
  if (!process.ok()) {
    events.emplace_back(SpawnFailed{process.status().message()});
    return;
  }
  const int end = ends.add({process.value().comm, 0});
  residents.add_end();
  doorbell.know_too("");
  children[peer] = {end, process.value().process};
  residents.heard(peer);
  open(end);
  for (const PeerId dead : residents.dead()) note(end, Note::Kind::died, dead.value);
  events.emplace_back(PeerSpawned{peer, clock.now_s()});
}

void MpiTransport::Parts::end_spawned() {
  for (const auto& [peer, child] : children) note(child.end, Note::Kind::kill_peer, peer.value);
  const WallClock clock;
  while (!children.empty() && clock.now_s() < kEndS) {
    if (!progress()) sleeper.sleep(-1, -1, kEndS);
  }
}

}  // namespace swarmpi
