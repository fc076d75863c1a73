#pragma once
// What of the traffic between two peers may overtake the rest: heartbeats, and pings, which ask for
// one. A peer is not to be taken for dead because its signs of life wait behind large messages. All
// else keeps its order, pongs too: that a pong has come proves that all that its sender had sent
// before has.

#include <cstddef>
#include <variant>

#include "protocol/messages/messages.hpp"

namespace swarmpi {

/// What overtakes waits behind no more bytes of other messages on its link than these.
inline constexpr std::size_t kMostBytesAhead = 1'000'000;

inline bool overtakes(const Message& message) {
  return std::holds_alternative<HeartbeatMessage>(message.body) ||
         std::holds_alternative<PingMessage>(message.body);
}

}  // namespace swarmpi
