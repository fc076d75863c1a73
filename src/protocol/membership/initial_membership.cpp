#include "protocol/membership/initial_membership.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "protocol/method/layout.hpp"
#include "protocol/method/room_layout.hpp"

namespace swarmpi {

std::vector<PeerId> InitialMembership::all() const {
  std::vector<PeerId> peers = workers;
  peers.insert(peers.end(), spares.begin(), spares.end());
  std::sort(peers.begin(), peers.end());
  return peers;
}

bool InitialMembership::contains(PeerId peer) const {
  const auto among = [peer](const std::vector<PeerId>& peers) {
    return std::find(peers.begin(), peers.end(), peer) != peers.end();
  };
  return among(workers) || among(spares);
}

InitialMembership make_membership(std::int64_t ranks, std::int64_t spares) {
  InitialMembership membership;
  for (std::int32_t id = 0; id < ranks; ++id) {
    (id < ranks - spares ? membership.workers : membership.spares).push_back(PeerId(id));
  }
  return membership;
}

std::optional<View> first_deal(const RunPlan& plan, const InitialMembership& membership) {
  return lay_out_in_room(plan, {membership.workers, membership.spares, {}, plan.swarm.pins},
                         membership.budgets);
}

View first_view(const RunPlan& plan, const InitialMembership& membership) {
  std::optional<View> view = first_deal(plan, membership);
  SWARMPI_CHECK(view.has_value(), "a run whose peers have too little memory does not start");
  return *std::move(view);
}

// Where replicas own ranges there is one stage.
Ownership ownership_at_start(const RunPlan& plan, const InitialMembership& membership,
                             PeerId peer) {
  if (!plan.swarm.has_owners()) return {};
  return ownership_of(plan.swarm, first_view(plan, membership), peer, StageId(0));
}

View first_view(const Config& config, std::int64_t ranks, const std::vector<double>& stage_costs) {
  const InitialMembership membership = make_membership(ranks, config.swarm.spares);
  return lay_out(config.swarm.method, membership.workers, membership.spares, stage_costs,
                 config.swarm.pins);
}

}  // namespace swarmpi
