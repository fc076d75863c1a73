#pragma once
// For how long something was on its way to or from a peer of a virtual world: the time in which a
// peer without a job waits for a link.

#include <algorithm>
#include <variant>

#include "protocol/messages/message.hpp"
#include "protocol/messages/message_traits.hpp"

namespace swarmpi {

/// Whether a peer may have nothing to compute until this message comes: not so with signs of life,
/// nor with what routers learn beside the work.
inline bool may_be_awaited(const Message& message) {
  const MessageClass kind = traits_of(message.body).message_class;
  return kind != MessageClass::heartbeat && !holds_alternative<ForwardDone>(message.body);
}

/// Messages are told in the order in which they leave.
class TimeCarried {
 public:
  /// One is on its way from now on, until then.
  void add(double now_s, double until_s) {
    if (now_s >= until_s_) {
      before_s_ += until_s_ - since_s_;
      since_s_ = now_s;
      until_s_ = now_s;
    }
    until_s_ = std::max(until_s_, until_s);
  }
  /// In all, until now. REQUIRES: no time before the last that was told.
  double until(double now_s) const { return before_s_ + std::min(now_s, until_s_) - since_s_; }

 private:
  double before_s_ = 0;
  double since_s_ = 0, until_s_ = 0;  // the last time without a gap
};

}  // namespace swarmpi
