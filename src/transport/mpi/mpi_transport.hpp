#pragma once
// Messages over MPI, point to point only. A peer's id is its rank, and its death is that of its
// process; or else peers live at a rank one after another, and their ranks announce their deaths. A
// process that was started while the run goes on talks only to the rank that has started it, which
// relays; its peer's id is that rank plus a multiple of the number of ranks. The loss of a peer is
// an event; the others go on.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/payload.hpp"
#include "protocol/messages/message.hpp"
#include "transport/mpi/peer_directory.hpp"
#include "transport/mpi/session.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

struct MpiTransportOptions {
  /// Larger messages travel in fragments. Above 64 KiB lost ranks may take others along.
  std::size_t fragment_bytes = 65536;
  /// At most, to and from each rank.
  int fragments_in_flight = 32;
  /// Senders of the same host wake a sleeping receiver.
  bool doorbell = true;
  /// The longest sleep without a look at MPI. It bounds the delay of what no doorbell announces:
  /// messages from other hosts, and lost ranks. Where more than four ranks share a core it is as
  /// many times longer, for each look takes the longer the more ranks there are.
  double longest_sleep_s = 2e-3;
  /// Where peers live at a rank one after another: the rank of each.
  EndpointOf rank_of = nullptr;
  /// The program's arguments in processes that spawn() starts; empty: it starts none.
  std::vector<std::string> spawned_arguments = {};
  /// The start-up data for such a process, which will be this peer.
  std::function<std::string(PeerId)> start_info = nullptr;
  /// Whether a process that has come up is taken.
  StartCheck start_check = nullptr;
  /// A process that has not come up after so long is given up.
  double start_limit_s = 20;
  /// So long nothing is sent or received at most where a process hangs as it is connected.
  double longest_hold_s = 1;
  /// For so long a peer is silent before it is to be killed: see KillOrders.
  double suspect_after_s = 3;
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
  /// Where the peer's process runs on this host it is killed directly; else ranks of its host are
  /// asked to do it. Where peers live at a rank one after another, the peer alone is ended().
  void kill(PeerId peer) override;
  /// Takes some tenths of a second, in which all goes on. Where this rank cannot start any, or was
  /// started itself, another one is asked to.
  void spawn() override;
  /// True means that MPI has taken charge of all messages, not that they have arrived.
  bool flush(double timeout_s) override;
  bool ended() const override;
  void drop_kill_order() override;
  double carried_s() const override;

  TransportCounters counters() const;

  // ---- Peers that live here one after another. REQUIRES: options.rank_of is set; for admit() also
  // a process that another has started.

  /// The peer that lives here is dead: nothing of it leaves any more, and nothing arrives for it.
  void fall_silent();
  /// Sends the death notice of a peer that lived here to all others.
  void announce_death(PeerId peer);
  /// From now on the peer `self` lives here.
  void admit(PeerId self);
  /// Tells all others that no peer will live here any more. `after_the_end`: the last one that did
  /// has seen the run's end.
  void part(bool after_the_end);
  /// Whether no peer lives at any other rank, nor will.
  bool all_others_parted() const;
  bool anybody_saw_the_end() const;
  /// Whether this is the first of the ranks that are not lost.
  bool is_first() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace swarmpi
