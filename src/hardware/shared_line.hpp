#pragma once
// A line of bounded rate: a peer's uplink or downlink, a site's, a route. Each pair of peers has a
// flow on it, as it has a connection in a real network: within a flow all is in order, and flows
// that have something to send share the rate evenly. So a small message to one peer does not wait
// for a large one to another.

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/virtual_time.hpp"

namespace swarmpi {

/// When the first and the last byte of a message are somewhere.
struct Passage {
  Nanoseconds first = 0;
  Nanoseconds last = 0;
};

/// How much of its own flow what overtakes waits for: what the line carries of it in `most_s`, but
/// so many bytes at least and at most.
struct AheadBound {
  double least_bytes = std::numeric_limits<double>::infinity();
  double most_bytes = std::numeric_limits<double>::infinity();
  double most_s = 0;
};

class SharedLine {
 public:
  using Flow = std::uint64_t;
  /// Bytes that a flow has put in before its backlog ends, in those of a flow that always has some.
  struct Backlog {
    Flow flow = 0;
    double end = 0;
  };
  /// What the line still carries.
  struct State {
    Nanoseconds now = 0;
    double served = 0;              ///< of a flow that always has some
    std::vector<Backlog> backlogs;  ///< what ends first is first
  };

  /// `mbps`: 10^6 bits a second; 0: no bound.
  explicit SharedLine(double mbps = 0) : SharedLine(mbps, State()) {}
  SharedLine(double mbps, State state)
      : ns_per_byte_(mbps > 0 ? 8e3 / mbps : 0),
        now_(state.now),
        served_(state.served),
        backlogs_(std::move(state.backlogs)) {}

  State state() const { return {now_, served_, backlogs_}; }

  /// When a message has passed the line as a whole that comes to it so, if nothing else comes
  /// later: what is put in later slows down only what comes after it. Of its own flow it waits for
  /// no more than `ahead`. Times may go back a little, as those of messages from near and far do.
  Nanoseconds pass(Flow flow, std::int64_t bytes, const Passage& passage,
                   const AheadBound& ahead = {});

  /// How long a packet of the flow would wait in a queue that serves all flows in the order in
  /// which packets come, if it holds so many bytes at most of each of the others.
  Nanoseconds queue(Flow flow, double most_bytes, Nanoseconds now) const;

  double ns_per_byte() const { return ns_per_byte_; }

 private:
  void advance(Nanoseconds to);
  /// The first backlog that ends later.
  std::vector<Backlog>::const_iterator behind(double end) const;

  double ns_per_byte_;
  Nanoseconds now_ = 0;
  double served_ = 0;
  std::vector<Backlog> backlogs_;
};

}  // namespace swarmpi
