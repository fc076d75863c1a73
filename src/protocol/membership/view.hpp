#pragma once
// A view says who serves what: each peer a set of stages, any number of peers >= 1 for any number
// of stages.

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

/// Views are numbered by the term of their leader, then by count.
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
  /// Of the stages that a member serves: those for which it gets no new microbatches, if another
  /// can have them.
  std::map<PeerId, std::set<StageId>> leaving;

  /// The live peer with the lowest id. REQUIRES: the view has a member.
  PeerId leader() const;
  bool serves(PeerId peer, StageId stage) const;
  /// The peers that serve `stage`, by id.
  std::vector<PeerId> replicas(StageId stage) const;
  /// Of these, those that stay.
  std::vector<PeerId> staying(StageId stage) const;
  /// To whom the microbatches of a stage go: those that stay, or else all.
  std::vector<PeerId> choices(StageId stage) const;
  /// Those that learn `stage`, by id.
  std::vector<PeerId> learners_of(StageId stage) const;
  void remove(PeerId peer);
  /// The peer serves, or learns, this stage no more.
  void take_from(PeerId peer, StageId stage);

  bool operator==(const View&) const = default;
};

/// Deals workers to stages in proportion to the stages' costs by largest remainder, at least one
/// each; with fewer peers than stages each peer serves neighbouring stages. Spares get none.
/// `pins`: the stages of the first workers, by id; the others are dealt to what is left. REQUIRES:
/// check_ranks() is content with them.
View deal_peers(const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
                const std::vector<double>& stage_costs, const std::vector<std::int64_t>& pins = {});

}  // namespace swarmpi
