#pragma once
// Messages over MPI, point to point only. A peer is its rank, unless preemption is emulated: then
// peers live at a rank one after another. A process that was started later talks to the one that
// has started it, which relays; its peer's id is that one's, more by a multiple of the ranks. A
// peer that is lost is an event; what lives goes on.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/payload.hpp"
#include "transport/counters.hpp"
#include "transport/emulated_process.hpp"
#include "transport/mpi/peer_directory.hpp"
#include "transport/mpi/session.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

struct MpiTransportOptions {
  /// Larger messages travel in fragments. Above 64 KiB lost ranks may take others along.
  std::size_t fragment_bytes = 65536;
  /// To and from each rank.
  int fragments_in_flight = 32;
  /// Senders of the same host wake a sleeping receiver.
  bool doorbell = true;
  /// How long at most it sleeps without looking, where nobody rings: from other hosts, and when
  /// ranks are lost.
  double longest_sleep_s = 2e-3;
  /// For emulated preemption: the rank where each peer lives.
  EndpointOf rank_of = nullptr;
  /// For emulated preemption, and in a process that another has started: what befalls the peer that
  /// lives here. Outlives the transport.
  EmulatedProcess* emulated_process = nullptr;
  /// The program's arguments in processes that spawn() starts; empty: it starts none.
  std::vector<std::string> spawned_arguments = {};
  /// What such a process is told: the peer is its own.
  std::function<std::string(PeerId)> start_info = nullptr;
};

class MpiTransport final : public Transport {
 public:
  /// All ranks of the session must make theirs. One at a time; both referred-to objects outlive it.
  /// In a process that another has started admit() must follow.
  MpiTransport(MpiSession& session, PayloadPool& payloads, MpiTransportOptions options = {});
  /// What was not flushed may be lost. Processes that were started from here end.
  ~MpiTransport() override;

  /// What is sent to this very rank arrives in order with all else, its payload not copied.
  void send(PeerId to, Message message) override;
  /// A rank's messages that have arrived whole come before its PeerLost, once per rank.
  std::optional<Event> receive() override;
  void wait(int wake_descriptor, double timeout_s) override;
  /// Itself where it lives on this host, else by the order of a rank that lives on that one's.
  void kill(PeerId peer) override;
  /// Blocks for some tenths of a second.
  void spawn() override;
  /// Says true when MPI has taken charge of all of it: that proves nothing about its arrival.
  bool flush(double timeout_s) override;

  TransportCounters counters() const;

  // ---- Emulated preemption. REQUIRES: a fate was given.

  /// The peer that lives here is dead: nothing more of it leaves, and nothing arrives.
  void fall_silent();
  /// All others hear that this peer, which lived here, has died; once nothing cuts it off.
  void announce_death(PeerId peer);
  /// From now on `self` lives here.
  void admit(PeerId self);
  /// Nobody will live here any more. `after_the_end`: the last one has seen the run's end.
  void part(bool after_the_end);
  /// Of the other ranks none has a peer, or will have one.
  bool all_others_parted() const;
  bool anybody_saw_the_end() const;
  /// Of the ranks that are not lost this is the first.
  bool is_first() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace swarmpi
