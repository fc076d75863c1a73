#pragma once
// What a peer that was itself stopped for long does about it: the others may have taken it for dead
// and continued without it, so it holds back what happens until one of them answers a ping. This
// does the work of a lease.

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/messages/message.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

class Suspension {
 public:
  /// `patience_s`: after so long a silence the others would have killed this peer;
  /// `give_up_after_s`: so long they wait where they cannot, and so long this peer waits for their
  /// answers.
  Suspension(double patience_s, double give_up_after_s)
      : patience_s_(patience_s), give_up_after_s_(std::max(patience_s, give_up_after_s)) {}

  bool active() const { return since_s_.has_value(); }
  /// Whether the timer comes so late that this peer was stopped (once more, if it is suspended).
  bool is_due(double now_s, std::optional<double> timer_s) const {
    return timer_s && now_s > *timer_s + patience_s_ &&
           (!active() || now_s > *since_s_ + patience_s_);
  }
  /// From now on only answers to later pings count.
  void begin(double now_s) { since_s_ = now_s; }
  /// Whether the event waits: all but pings, their answers, fencing, deaths and the timer.
  bool holds(const Event& event) const {
    if (!active()) return false;
    if (const auto* arrived = get_if<MessageArrived>(&event)) {
      return traits_of(arrived->message.body).hearing != Hearing::even_suspended;
    }
    return !holds_alternative<PeerLost>(event) && !holds_alternative<TimerDue>(event);
  }
  void hold(const Event& event) {
    if (holds_alternative<StopRequested>(event)) give_up_after_s_ = patience_s_;
    held_.push_back(event);
  }
  /// Whether nobody has answered for long. REQUIRES: active().
  bool is_hopeless(double now_s) const { return now_s > *since_s_ + give_up_after_s_; }
  /// An answer. If it is to a ping of this suspension, that is over: the events that were held.
  std::vector<Event> answered(double sent_s) {
    if (!active() || sent_s < *since_s_) return {};
    since_s_.reset();
    return std::exchange(held_, {});
  }

 private:
  double patience_s_, give_up_after_s_;
  std::optional<double> since_s_;
  std::vector<Event> held_;
};

}  // namespace swarmpi
