#pragma once
// A view as what has changed since another one: most changes concern a few peers, and a view names
// all of them.

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protocol/membership/view.hpp"

namespace swarmpi {

/// All that a view says of one peer. Of a peer that is gone it says nothing.
struct PeerRoles {
  PeerId peer;
  bool member = false;
  std::set<StageId> serves = {}, learns = {}, leaves = {};
  std::optional<std::int64_t> budget_bytes = {};

  bool operator==(const PeerRoles&) const = default;
};
SWARMPI_FIELDS(PeerRoles, peer, member, serves, learns, leaves, budget_bytes);

/// Counts only where the base is at hand, and only if the view that comes out has this hash.
struct ViewDelta {
  ViewNumber base;
  ViewNumber number;               // of the view that comes out
  std::vector<PeerRoles> changed;  // by id
  std::optional<StageMove> move;
  std::optional<LeadingOrder> order;  // if it has changed
  std::uint64_t hash = 0;
};
SWARMPI_FIELDS(ViewDelta, base, number, changed, move, order, hash);

/// What is to be changed in `base` to make `next` of it.
ViewDelta delta_between(const View& base, const View& next);
/// The view that comes out; null if `base` is not the one that the delta names, or something else
/// comes out than was meant.
ViewRef apply(const ViewDelta& delta, const View& base);

}  // namespace swarmpi
