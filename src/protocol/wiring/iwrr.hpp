#pragma once
// Interleaved weighted round robin: peers get microbatches in proportion to their speed, in an
// order that spreads them evenly over time. This is Algorithm 1 (stochastic wiring) of Ryabinin et
// al., "SWARM Parallelism", ICML 2023, arXiv 2301.11913. In our words (the numbers are ours):
//
//   (1) The peers of the next stage stand in a priority queue. A peer's priority is the sum of the
//       times that its microbatches were expected to take.
//   (2) A microbatch goes to the peer with the lowest priority; ties are broken at random.
//   (3) That peer is queued again with its priority raised by its expected time.
//   (4) The expected time is an exponential moving average of what its microbatches took, with
//       weight gamma = 0.1 for the newest, corrected for the start of the average.
//   (5) A newcomer is queued with the lowest priority of the others and an initial estimate.
//   (6) A peer that fails is not chosen until it announces itself again.
//
// Where we differ: (4) averages the time of the job alone, for time in a queue or on a link is no
// work of the peer. (5) takes the mean of the others' averages as the estimate; until anything is
// measured a microbatch counts 1, and the first measurement turns priorities into seconds. A
// newcomer is as far in its turn as the peer behind it, not at the lowest priority: of a hundred
// senders, which have chosen among a hundred peers in turn, half would have the newcomer next. For
// (6) the leader's view says who can be chosen. `all_idle` and `step_over` are ours: they forget
// all priorities.
//
// For (2), ties are rotated unless the deck asks for random ones: each sender begins with another
// peer, so that senders that know nothing of each other do not choose the same one at a time. Sums
// of equal times differ in their last bits: priorities within a hundredth of an expected time are
// tied.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/flat_map.hpp"
#include "core/flat_set.hpp"
#include "core/random.hpp"
#include "protocol/wiring/router.hpp"

namespace swarmpi {

class InterleavedRoundRobin : public Router {
 public:
  /// `draws`: of this router alone; they order random ties.
  InterleavedRoundRobin(WiringTies ties, const RandomStream& draws) : ties_(ties), draws_(draws) {}

  PeerId choose(const MicrobatchId& microbatch) override;
  void measured(PeerId peer, double seconds) override;
  void all_idle() override;
  void step_over() override;
  void set_peers(const std::vector<PeerId>& peers, std::size_t sender) override;

 private:
  /// Exponential moving average of what a peer's microbatches took, corrected for its start (4).
  struct ProcessingTime {
    double initial = 0;  ///< stands for the average until something is measured
    double sum = 0;
    double weight = 0;  ///< of what was measured, in `sum`; tends to 1

    bool known() const { return weight > 0; }
    double expected() const { return known() ? sum / weight : initial; }
    void update(double seconds);
  };

  /// An entry of the queue (1). Peers that are tied have the same key.
  struct QueueEntry {
    double key = 0;           ///< the lowest is next
    std::uint64_t order = 0;  ///< of those that are tied (2)
    PeerId peer;

    auto operator<=>(const QueueEntry&) const = default;
  };

  struct Candidate {
    ProcessingTime time;
    double priority = 0;
    std::size_t place = 0;   ///< among the candidates, by id
    std::uint64_t draw = 0;  ///< drawn each time that it is chosen
  };

  /// Whether none of the peers takes much longer than another.
  bool are_alike() const;
  void enqueue(PeerId peer, const Candidate& candidate);
  void enqueue_all();
  /// The key of an entry that ties with this priority, else the priority itself.
  double key_of(double priority, double expected) const;
  /// Among those that are tied.
  std::uint64_t order_of(const Candidate& candidate) const;
  double lowest_priority() const;
  /// Of a newcomer: between the lowest and one microbatch above, at the same part of that way as
  /// the candidate behind it, the first being behind the last; of those that take about as long as
  /// most do.
  double first_priority(PeerId newcomer, double lowest) const;
  /// REQUIRES: there are candidates.
  double median_expected() const;
  /// Mean over the peers that were measured; the last such mean if none of them is left.
  double initial_estimate() const;
  /// Turns priorities that counted microbatches into ones that count seconds.
  void scale(double seconds);

  WiringTies ties_;
  RandomStream draws_;
  std::size_t sender_ = 0;
  std::vector<PeerId> peers_;  // as they were set
  FlatMap<PeerId, Candidate> candidates_;
  FlatSet<QueueEntry> queue_;
  bool anything_measured_ = false;
  double last_estimate_ = 1;  ///< a microbatch counts 1 until the first one is measured
};

}  // namespace swarmpi
