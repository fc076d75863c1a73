#pragma once
// Who serves what where memory is bounded. The deal by costs (layout.hpp) is taken where it fits;
// else one is searched for: the first by which all stages fit and the busiest peer has the least to
// do, among so many that the search never takes long.

#include <optional>
#include <string>
#include <vector>

#include "protocol/membership/room.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

/// Whom stages can be dealt to.
struct Hands {
  std::vector<PeerId> workers;
  std::vector<PeerId> spares;           ///< serve if the workers have no room for all stages
  std::vector<PeerId> last = {};        ///< serve if else there is no room, either
  std::vector<std::int64_t> pins = {};  ///< swarm.pins
};

/// The view in which these peers serve all stages, each within its budget; none where no such deal
/// was found. The view has the budgets of its members.
std::optional<View> lay_out_in_room(const RunPlan& plan, const Hands& hands,
                                    const Budgets& budgets);

/// For people: what each stage needs, what these peers may take, and with how much one more peer
/// would be enough, or who is pinned to what it cannot hold. REQUIRES: lay_out_in_room() gives no
/// view.
std::string shortage(const RunPlan& plan, const Hands& hands, const Budgets& budgets);

/// Begins the text of a run that ends for it.
inline constexpr const char* kTooLittleMemory = "too little memory: ";

}  // namespace swarmpi
