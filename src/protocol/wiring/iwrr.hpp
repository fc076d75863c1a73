#pragma once
// Interleaved weighted round robin: Algorithm 1 of the SWARM paper. Peers get microbatches in
// proportion to their speed, in an order that spreads them evenly over time.

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/random.hpp"
#include "protocol/wiring/router.hpp"

namespace swarmpi {

class InterleavedRoundRobin : public Router {
 public:
  /// `draws`: of this router alone; they break ties.
  explicit InterleavedRoundRobin(const RandomStream& draws) : draws_(draws) {}

  PeerId choose(const MicrobatchId& microbatch) override;
  void measured(PeerId peer, double seconds) override;
  void all_idle() override;
  void set_peers(const std::vector<PeerId>& peers) override;

 private:
  /// Exponential moving average of what a peer's microbatches took, corrected for its start.
  struct ProcessingTime {
    double initial = 0;  ///< stands for the average until something is measured
    double sum = 0;
    double weight = 0;  ///< of what was measured, in `sum`; tends to 1

    bool known() const { return weight > 0; }
    double expected() const { return known() ? sum / weight : initial; }
    void update(double seconds);
  };

  /// A place in the queue. The draw orders peers with equal priority at random.
  struct QueueEntry {
    double priority = 0;  ///< accumulated expected time; the lowest is next
    std::uint64_t draw = 0;
    PeerId peer;

    auto operator<=>(const QueueEntry&) const = default;
  };

  struct Candidate {
    ProcessingTime time;
    QueueEntry place;
  };

  void enqueue(Candidate& candidate, double priority);
  void add_peer(PeerId peer, double priority, double initial);
  /// Mean over the peers that were measured.
  double initial_estimate() const;
  /// Turns priorities that counted microbatches into ones that count seconds.
  void scale(double seconds);

  RandomStream draws_;
  std::map<PeerId, Candidate> candidates_;
  std::set<QueueEntry> queue_;
  bool anything_measured_ = false;
  double last_estimate_ = 1;  ///< a microbatch counts 1 until the first one is measured
};

}  // namespace swarmpi
