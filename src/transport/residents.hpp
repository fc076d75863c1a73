#pragma once
// Which peer is to be found where. A peer is its rank; or, where preemption is emulated, peers live
// at a rank one after another, each with an id of its own, and their deaths are announced.

#include <functional>
#include <set>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// Where a peer lives or will live; -1 for one that is never there.
using RankOf = std::function<int(PeerId)>;

class Residents {
 public:
  /// Peers are their ranks, unless `rank_of` says otherwise.
  Residents(int rank, int ranks, RankOf rank_of = nullptr);

  PeerId self() const { return self_; }
  /// From now on `self` lives here: nothing was said to it yet.
  void settle(PeerId self);
  /// Nobody lives here.
  void vacate() { self_ = kNobody; }

  /// Where the peer can be reached; -1: it is dead, or nowhere.
  int reach(PeerId peer);
  /// A message has come from it.
  void heard(PeerId peer) { known_.insert(peer); }
  void bury(PeerId peer) { dead_.insert(peer); }
  /// Buries all who live there; says who they were, as far as they are known.
  std::vector<PeerId> lose(int rank);
  bool lost(int rank) const { return lost_[static_cast<std::size_t>(rank)]; }
  /// Whether the peer that lives here must hear of this death: the first time only.
  bool must_hear_of(PeerId dead);

  /// Nobody lives at this rank any more, nor will; `after_the_end`: of the run.
  void parted(int rank, bool after_the_end);
  bool all_others_parted() const;
  bool anybody_saw_the_end() const { return seen_end_; }

 private:
  static constexpr PeerId kNobody{-1};

  int rank_;
  RankOf rank_of_;
  PeerId self_;
  std::vector<bool> lost_;    // by rank
  std::vector<bool> parted_;  // by rank
  bool seen_end_ = false;
  std::set<PeerId> known_;  // sent to or heard
  std::set<PeerId> dead_;
  std::set<PeerId> told_;  // of these: as the peer here knows
};

}  // namespace swarmpi
