#pragma once
// The peers that a run begins with.

#include <cstdint>
#include <vector>

#include "config/config.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

/// Who is there at the start, and where the run stands.
struct InitialMembership {
  std::vector<PeerId> workers;
  std::vector<PeerId> spares;
  Term first_term{1};  ///< number of the first leadership: one above the journal's highest
  std::vector<PeerId> join_contacts = {};  ///< whom else somebody asks who comes later

  /// Workers and spares, by id.
  std::vector<PeerId> all() const;
};

/// Ids are ranks; spares are the highest.
InitialMembership make_membership(std::int64_t ranks, std::int64_t spares);

/// The view that such a run begins with. REQUIRES: check_ranks() is good.
View first_view(const Config& config, std::int64_t ranks, const std::vector<double>& stage_costs);

}  // namespace swarmpi
