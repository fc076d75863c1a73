#pragma once
// The peers that a run begins with.

#include <cstdint>
#include <optional>
#include <vector>

#include "config/config.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

/// Who is there at the start, and where the run stands.
struct InitialMembership {
  std::vector<PeerId> workers;
  std::vector<PeerId> spares;
  Term first_term{1};  ///< number of the first leadership: one above the journal's highest
  /// Peers of later joiners that a newcomer asks as well, beside those of the start.
  std::vector<PeerId> join_contacts = {};
  /// What peers may take, as they have stated; that of a newcomer is here, too.
  Budgets budgets = {};

  /// Workers and spares, by id.
  std::vector<PeerId> all() const;
  bool contains(PeerId peer) const;
};

/// Ids are ranks; spares are the highest.
InitialMembership make_membership(std::int64_t ranks, std::int64_t spares);

/// The view that a run of these peers begins with; none where their memory is too little.
std::optional<View> first_deal(const RunPlan& plan, const InitialMembership& membership);
/// The same. REQUIRES: there is one.
View first_view(const RunPlan& plan, const InitialMembership& membership);
/// What the peer owns at the start of the stage that it serves; see ownership_of().
Ownership ownership_at_start(const RunPlan& plan, const InitialMembership& membership, PeerId peer);
/// The view that a run with make_membership(ranks, swarm.spares) begins with where memory is not
/// bounded. REQUIRES: check_ranks() has accepted them.
View first_view(const Config& config, std::int64_t ranks, const std::vector<double>& stage_costs);

}  // namespace swarmpi
