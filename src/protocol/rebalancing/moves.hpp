#pragma once
// The moves that the plan gives beforehand: a peer learns the new stage while it serves the old
// one, and then leaves that.

#include <set>
#include <utility>
#include <vector>

#include "protocol/membership/departures.hpp"
#include "protocol/membership/learners.hpp"

namespace swarmpi {

class Moves {
 public:
  explicit Moves(std::vector<Move> planned) : moves_(std::move(planned)) {}

  /// Takes the moves that are due after this commit a step further, but for those of peers that
  /// have no room for both stages. Whether the view has changed.
  bool advance(View& view, Departures& departures, const Learners& learners, Step committed,
               double now_s, const MemoryNeeds& needs = {});

 private:
  /// Whether a later move of the same peer is due as well: only the last counts.
  bool superseded(std::size_t move, Step committed) const;

  std::vector<Move> moves_;
  std::set<std::size_t> done_;
};

}  // namespace swarmpi
