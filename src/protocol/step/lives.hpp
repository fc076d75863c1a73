#pragma once
// The rows of /goodput on their way to the journal: peers tell what their time went by with, step
// by step, and of what a peer cannot tell any more, because its life or the run ends, the leader
// makes a last row.

#include <cstdint>
#include <map>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"

namespace swarmpi {

class Lives {
 public:
  /// `run`: the first term of this run, which the rows of its peers bear.
  explicit Lives(Term run) : run_(run) {}

  /// The peer is a member from now on, if it was none.
  void joined(PeerId peer, double now_s) { told_until_s_.try_emplace(peer, now_s); }
  /// A row has come. One of a step that is still to come, or never will, is kept until the peer's
  /// time is over, or another replaces it.
  void enter(const GoodputRow& row, Step committed);
  /// Up to `until_s` the peer's rows have told all of its time, as it says itself.
  void told_until(PeerId peer, double until_s) { told_until_s_[peer] = until_s; }

  /// The time of the peer, or of the run, is over: what its rows have not told goes into `column`
  /// of a last row; of it `checkpoint_s` at most went by with the last checkpoint.
  void end(PeerId peer, double GoodputRow::*column, double now_s, Step committed,
           std::int64_t incarnation, double checkpoint_s = 0);
  /// All go back to the state after this step.
  void go_back(Step step);

  /// The rows to store, each once.
  std::vector<GoodputRow> take();

 private:
  Term run_;
  std::map<PeerId, double> told_until_s_;  // of those that live, on the leader's clock
  std::vector<GoodputRow> rows_;
  std::map<PeerId, GoodputRow> kept_;  // of a step that is still to come
};

}  // namespace swarmpi
