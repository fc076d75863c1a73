#include "protocol/wiring/router.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.hpp"
#include "core/random.hpp"
#include "protocol/wiring/iwrr.hpp"

namespace swarmpi {
namespace {

/// What the policies that measure nothing share.
class UnmeasuredRouter : public Router {
 public:
  void measured(PeerId, double) override {}
  void set_peers(const std::vector<PeerId>& peers, std::size_t) override {
    peers_ = peers;
    std::sort(peers_.begin(), peers_.end());
  }

 protected:
  /// By id.
  const std::vector<PeerId>& peers() const {
    SWARMPI_CHECK(!peers_.empty(), "a router needs a peer to choose");
    return peers_;
  }

 private:
  std::vector<PeerId> peers_;
};

class UniformRouter : public UnmeasuredRouter {
 public:
  explicit UniformRouter(const RandomStream& draws) : draws_(draws) {}
  PeerId choose(const MicrobatchId&) override { return peers()[draws_.below(peers().size())]; }

 private:
  RandomStream draws_;
};

/// In the order of ids. The first peer is drawn, so that not all routers begin with the same one.
class RoundRobinRouter : public UnmeasuredRouter {
 public:
  explicit RoundRobinRouter(const RandomStream& draws) : draws_(draws) {}

  PeerId choose(const MicrobatchId&) override {
    if (!last_) {
      last_ = peers()[draws_.below(peers().size())];
    } else {
      const auto next = std::upper_bound(peers().begin(), peers().end(), *last_);
      last_ = next == peers().end() ? peers().front() : *next;
    }
    return *last_;
  }

 private:
  RandomStream draws_;
  std::optional<PeerId> last_;
};

/// The choice depends on the microbatch's index alone.
class FixedRouter : public UnmeasuredRouter {
 public:
  PeerId choose(const MicrobatchId& microbatch) override {
    return peers()[static_cast<std::size_t>(microbatch.index) % peers().size()];
  }
};

/// The next peer of a static pipeline. The pipelines stay what they are until the run goes back:
/// who has died meanwhile is sent its microbatches still, and nobody is sent those of another
/// pipeline.
class PipelineRouter final : public FixedRouter {
 public:
  void set_peers(const std::vector<PeerId>& peers, std::size_t sender) override {
    if (!std::exchange(wired_, true)) FixedRouter::set_peers(peers, sender);
  }
  void go_back() override { wired_ = false; }

 private:
  bool wired_ = false;
};

}  // namespace

std::unique_ptr<Router> make_router(const SwarmConfig& swarm, PeerId self, StageId stage) {
  if (swarm.has_pipelines()) return std::make_unique<PipelineRouter>();
  // No deck has more than 2^16 stages, and no run makes 2^48 choices.
  const RandomStream draws(swarm.seed, Stream::wiring, static_cast<std::uint32_t>(self.value),
                           static_cast<std::uint64_t>(stage.value) << 48);
  if (swarm.wiring == Wiring::uniform) return std::make_unique<UniformRouter>(draws);
  if (swarm.wiring == Wiring::round_robin) return std::make_unique<RoundRobinRouter>(draws);
  if (swarm.wiring == Wiring::fixed) return std::make_unique<FixedRouter>();
  return std::make_unique<InterleavedRoundRobin>(swarm.wiring_ties, draws);
}

}  // namespace swarmpi
