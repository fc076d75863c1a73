#pragma once
// At which endpoint each peer is reached, and which peers are dead. A peer's endpoint is its rank;
// or else peers live at a rank one after another, each with an id of its own, and death notices are
// sent. A peer in a process that was started later is reached at the rank that has started it.

#include <functional>
#include <set>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// The number of the endpoint where a peer is reached if it lives; -1: there is none.
using EndpointOf = std::function<int(PeerId)>;

class PeerDirectory {
 public:
  /// `self`: the endpoint of this process, -1 if it has none; `count`: of all endpoints. Without
  /// `endpoint_of` a peer's endpoint has the number of its id.
  PeerDirectory(int self, int count, EndpointOf endpoint_of = nullptr);

  PeerId self() const { return self_; }
  /// From now on the peer `self` lives here. No death was reported to it yet.
  void admit(PeerId self);
  /// No peer lives here.
  void clear() { self_ = kNobody; }

  /// The endpoint where the peer is reached; -1: it is dead, or has none. The peer is known from
  /// then on.
  int find(PeerId peer);
  /// The peer has sent a message, or was started from here.
  void mark_known(PeerId peer) { known_.insert(peer); }
  /// Returns false where it was marked before.
  bool mark_dead(PeerId peer) { return dead_.insert(peer).second; }
  const std::set<PeerId>& dead() const { return dead_; }
  /// Marks the endpoint as lost, and as dead all known peers that lived there: returns these.
  std::vector<PeerId> mark_lost(int endpoint);
  bool is_lost(int endpoint) const { return lost_[static_cast<std::size_t>(endpoint)]; }
  /// A new endpoint has the next number.
  void add_endpoint();
  /// Whether this death is to be reported to the peer that lives here: once, and not its own.
  bool first_report(PeerId dead);

  /// No peer lives at this endpoint any more, nor will. `after_the_end`: its last one has seen the
  /// run's end.
  void mark_parted(int endpoint, bool after_the_end);
  bool all_others_parted() const;
  bool anybody_saw_the_end() const { return run_ended_; }

 private:
  static constexpr PeerId kNobody{-1};

  int self_endpoint_;
  EndpointOf endpoint_of_;
  PeerId self_;
  std::vector<bool> lost_;    // by endpoint
  std::vector<bool> parted_;  // by endpoint
  bool run_ended_ = false;
  std::set<PeerId> known_;  // looked up, or heard from
  std::set<PeerId> dead_;
  std::set<PeerId> reported_;  // of the dead: those that the peer here knows of
};

}  // namespace swarmpi
