#pragma once
// A view says which peers live and which stages each serves. Any number of peers >= 1 can serve any
// number of stages.

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// Views are ordered by the term of their leader, then by its count of them.
struct ViewNumber {
  Term term;
  std::int64_t number = 0;

  auto operator<=>(const ViewNumber&) const = default;
};

struct View {
  ViewNumber number;
  /// Live peers and the stages each serves; a spare serves none.
  std::map<PeerId, std::set<StageId>> members;
  /// Members that receive a stage's state and every reduced gradient, but do not serve it.
  std::map<PeerId, std::set<StageId>> learners;
  /// Of the stages that a member serves, those that it is leaving: it gets no new microbatches of
  /// them if another replica can have them.
  std::map<PeerId, std::set<StageId>> leaving;

  /// The live peer with the lowest id. REQUIRES: the view has a member.
  PeerId leader() const;
  bool serves(PeerId peer, StageId stage) const;
  /// The peers that serve `stage`, by id.
  std::vector<PeerId> replicas(StageId stage) const;
  /// The replicas of `stage` that are not leaving it.
  std::vector<PeerId> staying(StageId stage) const;
  /// The replicas that get microbatches of `stage`: those that stay, or all if none does.
  std::vector<PeerId> choices(StageId stage) const;
  /// The peers that learn `stage`, by id.
  std::vector<PeerId> learners_of(StageId stage) const;
  /// The peer is no member any more.
  void remove(PeerId peer);
  /// The peer neither serves nor learns this stage any more.
  void take_from(PeerId peer, StageId stage);

  bool operator==(const View&) const = default;
};

/// The view in which workers serve the stages in proportion to the stages' costs, by largest
/// remainder, at least one each; with fewer workers than stages each serves neighbouring stages.
/// Spares serve none. `pins`: the stages of the first workers, by id; the others get what is left.
/// REQUIRES: a worker and a stage; check_ranks() has accepted the pins.
View deal_peers(const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
                const std::vector<double>& stage_costs, const std::vector<std::int64_t>& pins = {});

}  // namespace swarmpi
