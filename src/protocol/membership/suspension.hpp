#pragma once
// What a peer that was itself stopped for long does about it: the others may have taken it for dead
// and continued without it, so it holds back what happens until one of them answers a ping. This
// does the work of a lease.

#include <optional>
#include <vector>

#include "protocol/messages/ports.hpp"

namespace swarmpi {

class Suspension {
 public:
  /// `patience_s`: after so long a silence the others would have killed this peer.
  explicit Suspension(double patience_s) : patience_s_(patience_s) {}

  bool active() const { return suspended_.has_value(); }
  /// Whether the timer comes so late that this peer was stopped (once more, if it is suspended).
  bool is_due(double now_s, std::optional<double> timer_s) const;
  /// From now on only answers to later pings count.
  void begin(double now_s);
  /// Whether the event waits: all but pings, their answers, fencing, deaths and the timer.
  bool holds(const Event& event) const;
  void hold(const Event& event) { suspended_->held.push_back(event); }
  /// Whether nobody has answered for long.
  bool is_hopeless(double now_s) const { return now_s > suspended_->since_s + patience_s_; }
  /// An answer. If it is to a ping of this suspension, that is over: the events that were held.
  std::vector<Event> answered(const PongMessage& pong);

 private:
  struct Suspended {
    double since_s = 0;
    std::vector<Event> held;
  };
  double patience_s_;
  std::optional<Suspended> suspended_;
};

}  // namespace swarmpi
