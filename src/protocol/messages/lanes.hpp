#pragma once
// What of the traffic between two peers may overtake the rest: heartbeats, pings, which ask for
// one, and notices. A peer is not to be taken for dead because its signs of life wait behind large
// messages, nor for one that was not asked to stop because its notice does. All else keeps its
// order, pongs too: that a pong has come proves that all that its sender had sent before has.

#include <cstddef>

#include "hardware/shared_line.hpp"
#include "protocol/messages/message.hpp"

namespace swarmpi {

/// What overtakes waits on its link behind what that carries in half a second, well below the usual
/// time to suspicion; but behind four of the smallest fragments, so that some may be on their way
/// while others are acknowledged, and behind no more than keeps a link of some milliseconds and 1
/// Gbit/s busy.
inline constexpr AheadBound kAhead{32'768, 1e6, 0.5};

/// These say that their sender lives, and change nothing of what is to be done.
inline bool is_sign_of_life(const Message& message) {
  return holds_alternative<HeartbeatMessage>(message.body) ||
         holds_alternative<PingMessage>(message.body) ||
         holds_alternative<PongMessage>(message.body);
}

inline bool overtakes(const Message& message) {
  return holds_alternative<HeartbeatMessage>(message.body) ||
         holds_alternative<PingMessage>(message.body) ||
         holds_alternative<NoticeMessage>(message.body);
}

}  // namespace swarmpi
