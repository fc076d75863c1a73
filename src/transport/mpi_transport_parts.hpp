#pragma once
// What MpiTransport is made of: streams of messages from end to end, notes beside them, and who
// lives where.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/doorbell.hpp"
#include "transport/ends.hpp"
#include "transport/incoming.hpp"
#include "transport/mpi_handles.hpp"
#include "transport/mpi_transport.hpp"
#include "transport/note.hpp"
#include "transport/outgoing.hpp"
#include "transport/process.hpp"
#include "transport/requests.hpp"
#include "transport/sleeper.hpp"

namespace swarmpi {

struct MpiTransport::Parts {
  Parts(MpiSession& session, PayloadPool& payloads, MpiTransportOptions asked);

  /// Says whether anything happened.
  bool progress();
  void send(PeerId to, Message message);
  void take(const Completion& done);
  void take(const Note& note, int from);
  void lose(int end, int error);
  void lose_all_at(int end);
  void relay(Incoming::Letter letter, int from);
  int end_of(PeerId peer) const;
  /// From now on this is an end too.
  void open(int end);
  /// The next note, or the death, of this end.
  void watch(int end);
  void note(int end, Note::Kind kind, int about);
  /// To all but one.
  void note_all(Note::Kind kind, int about, int but = -1);
  void spawn();
  void end_spawned();
  void order_to_kill(PeerId peer);
  void order_to_kill_process(int rank);
  /// What happens to the peer that lives here, unless it is cut off.
  void happen(Event event);
  void tell_of_death(PeerId peer);
  bool is_cut_off() const { return fate != nullptr && fate->cut; }
  void heal();
  bool busy() const { return !outgoing.idle() || incoming.expecting(); }

  struct Child {
    int end = -1;
    Process process;
  };

  MpiSession::Handles& mpi;
  MpiTransportOptions options;
  Ends ends;
  Doorbell doorbell;
  Sleeper sleeper;
  TransportCounters counters;
  Requests requests;
  Outgoing outgoing;
  Incoming incoming;
  Residents residents;
  Fate* fate;                                  // null: only processes die
  std::vector<Process> processes;              // by rank
  std::map<PeerId, Child> children;            // that were started from here
  std::vector<std::shared_ptr<Note>> watched;  // by end: where a note lands
  std::vector<int> losses;                     // found since events were last looked at
  std::deque<Event> events;
  std::vector<std::pair<PeerId, Message>> held_letters;  // while cut off
  std::vector<Event> held_events;
  std::vector<PeerId> held_obituaries;
  int started = 0;
  int events_without_progress = 0;
  bool nothing_new = false;  // MPI was looked at just now, and nothing was sent since
};

}  // namespace swarmpi
