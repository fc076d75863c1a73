#pragma once
// Which peer is to be found where. A peer is its rank; or, where preemption is emulated, peers live
// at a rank one after another, each with an id of its own, and their deaths are announced. Peers
// that came later are found at the rank that has started their process.

#include <functional>
#include <set>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// The end where a peer is to be found, if it lives; -1 for one that is never there.
using EndpointOf = std::function<int(PeerId)>;

class PeerDirectory {
 public:
  /// `self`: the end of this process, -1 if it is none; `count`: of all ends. Peers are their ends,
  /// unless `end_of` says otherwise.
  PeerDirectory(int self, int count, EndpointOf end_of = nullptr);

  PeerId self() const { return self_; }
  /// From now on `self` lives here: nothing was said to it yet.
  void admit(PeerId self);
  /// Nobody lives here.
  void vacate() { self_ = kNobody; }

  /// Where the peer can be reached; -1: it is dead, or nowhere.
  int reach(PeerId peer);
  /// A message has come from it.
  void heard(PeerId peer) { known_.insert(peer); }
  /// Says whether it lived, as far as was known.
  bool mark_dead(PeerId peer) { return dead_.insert(peer).second; }
  const std::set<PeerId>& dead() const { return dead_; }
  /// Buries all who live there; says who they were, as far as they are known.
  std::vector<PeerId> lose(int end);
  bool lost(int end) const { return lost_[static_cast<std::size_t>(end)]; }
  /// One more end.
  void add_end();
  /// Whether the peer that lives here must hear of this death: the first time only.
  bool must_hear_of(PeerId dead);

  /// Nobody lives at this end any more, nor will; `after_the_end`: of the run.
  void parted(int end, bool after_the_end);
  bool all_others_parted() const;
  bool anybody_saw_the_end() const { return seen_end_; }

 private:
  static constexpr PeerId kNobody{-1};

  int self_end_;
  EndpointOf end_of_;
  PeerId self_;
  std::vector<bool> lost_;    // by end
  std::vector<bool> parted_;  // by end
  bool seen_end_ = false;
  std::set<PeerId> known_;  // sent to or heard
  std::set<PeerId> dead_;
  std::set<PeerId> told_;  // of these: as the peer here knows
};

}  // namespace swarmpi
