#pragma once
// What MpiTransport is made of: streams of messages from end to end, notes beside them, and who
// lives where.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/mpi/backoff.hpp"
#include "transport/mpi/control_message.hpp"
#include "transport/mpi/doorbell.hpp"
#include "transport/mpi/endpoints.hpp"
#include "transport/mpi/handles.hpp"
#include "transport/mpi/incoming.hpp"
#include "transport/mpi/mpi_transport.hpp"
#include "transport/mpi/outgoing.hpp"
#include "transport/mpi/process.hpp"
#include "transport/mpi/requests.hpp"

namespace swarmpi {

struct MpiTransport::Parts {
  Parts(MpiSession& session, PayloadPool& payloads, MpiTransportOptions asked);

  /// Says whether anything happened.
  bool progress();
  void send(PeerId to, Message message);
  void take(const Completion& done);
  void take(const ControlMessage& note, int from);
  void lose(int end, int error);
  void lose_all_at(int end);
  void relay(Incoming::InboundMessage inbound, int from);
  int end_of(PeerId peer) const;
  /// From now on this is an end too.
  void open(int end);
  /// The next note, or the death, of this end.
  void watch(int end);
  void note(int end, ControlMessage::Kind kind, int about);
  /// To all but one.
  void note_all(ControlMessage::Kind kind, int about, int but = -1);
  void spawn();
  void end_spawned();
  void order_to_kill(PeerId peer);
  void order_to_kill_process(int rank);
  /// What happens to the peer that lives here, unless it is cut off.
  void happen(Event event);
  void tell_of_death(PeerId peer);
  bool is_cut_off() const { return emulated_process != nullptr && emulated_process->cut; }
  void heal();
  bool busy() const { return !outgoing.idle() || incoming.expecting(); }

  struct Child {
    int end = -1;
    Process process;
  };

  MpiSession::Handles& mpi;
  MpiTransportOptions options;
  Endpoints endpoints;
  Doorbell doorbell;
  Backoff backoff;
  TransportCounters counters;
  Requests requests;
  Outgoing outgoing;
  Incoming incoming;
  PeerDirectory directory;
  EmulatedProcess* emulated_process;                     // null: only processes die
  std::vector<Process> processes;                        // by rank
  std::map<PeerId, Child> children;                      // that were started from here
  std::vector<std::shared_ptr<ControlMessage>> watched;  // by end: where a note lands
  std::vector<int> losses;                               // found since events were last looked at
  std::deque<Event> events;
  std::vector<std::pair<PeerId, Message>> held_messages;  // while cut off
  std::vector<Event> held_events;
  std::vector<PeerId> held_death_notices;
  int started = 0;
  int events_without_progress = 0;
  bool nothing_new = false;  // MPI was looked at just now, and nothing was sent since
};

}  // namespace swarmpi
