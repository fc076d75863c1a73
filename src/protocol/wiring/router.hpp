#pragma once
// Stochastic wiring: which replica of the next stage works on a microbatch. Each peer has one
// router for each stage that it sends activations to; the leader, as source, has the one for stage
// 0.

#include <cstddef>
#include <memory>
#include <vector>

#include "config/config.hpp"
#include "core/ids.hpp"

namespace swarmpi {

class Router {
 public:
  virtual ~Router() = default;
  /// The peer for this microbatch. REQUIRES: a peer is there.
  virtual PeerId choose(const MicrobatchId& microbatch) = 0;
  /// What a microbatch took at this peer, in seconds.
  virtual void measured(PeerId peer, double seconds) = 0;
  /// All peers have done all that they were given: what a router has accumulated about their load
  /// is forgotten. Only for a router that is the only one to its peers: where many route to the
  /// same peers, each would begin with the slow one (measured: 64 % of perfect balance instead of
  /// 84 %).
  virtual void all_idle() {}
  /// The same, for one of many routers to the same peers: forgets only where that delays no step.
  virtual void step_over() {}
  /// The peers to choose from, from now on. Of those that stay, what was measured is kept.
  /// `sender`: the place of this router's peer among the replicas of its own stage; the source: 0.
  virtual void set_peers(const std::vector<PeerId>& peers, std::size_t sender) = 0;
  /// All go back to a checkpoint, and are dealt to the stages anew.
  virtual void go_back() {}
};

/// `self` and `stage` key the random choices, so that no two routers draw alike.
std::unique_ptr<Router> make_router(const SwarmConfig& swarm, PeerId self, StageId stage);

}  // namespace swarmpi
