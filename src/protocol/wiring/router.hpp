#pragma once
// Stochastic wiring: which replica of the next stage shall work on a microbatch. Each peer owns one
// router for every stage that it sends forwards to; the source owns one for stage 0.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace swarmpi {

class Router {
 public:
  virtual ~Router() = default;
  /// The peer for this microbatch. REQUIRES: a peer is there.
  virtual PeerId choose(const MicrobatchId& microbatch) = 0;
  /// What a microbatch took at this peer, in seconds.
  virtual void measured(PeerId peer, double seconds) = 0;
  /// All peers have done what they were given, by this router or any other: nothing that was
  /// accumulated stands in anybody's way. For the only router to its peers: where many route to the
  /// same ones, forgetting makes each begin with the slow peer (measured: 64 % of perfect balance
  /// instead of 84 %).
  virtual void all_idle() {}
  /// The peers to choose from, from now on. Those that stay keep what was measured; newcomers enter
  /// as the policy says.
  virtual void set_peers(const std::vector<PeerId>& peers) = 0;
};

/// `policy`: iwrr, uniform, round_robin or fixed. `self` and `stage` key the random choices, so
/// that routers differ.
std::unique_ptr<Router> make_router(const std::string& policy, std::uint64_t seed, PeerId self,
                                    StageId stage);

}  // namespace swarmpi
