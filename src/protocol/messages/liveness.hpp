#pragma once
// Messages about silence and death.

#include <cstdint>
#include <string>

#include "core/field_list.hpp"
#include "core/ids.hpp"

namespace swarmpi {

/// Leader to each other member and back, every `swarm.heartbeat_s`, and at once in answer to a
/// ping: a sign of life of the event loop, which says how far it is and whom it hears.
struct HeartbeatMessage {
  double answers_s = -1;       ///< the time in the ping that it answers; negative: none
  std::int64_t handled = 0;    ///< events of its sender so far, but for the timer
  double oldest_waits_s = 0;   ///< the age of the oldest that its threads have left for it
  double you_silent_s = 0;     ///< for how long it has not heard its receiver, if it listens for it
  PeerId leader = PeerId(-1);  ///< whom it listens to as the leader; -1: nobody
  double leader_silent_s = 0;  ///< for how long it has not heard that one
};
SWARMPI_FIELDS(HeartbeatMessage, answers_s, handled, oldest_waits_s, you_silent_s, leader,
               leader_silent_s);

/// To a peer that is silent and from which something is awaited, or of which it must be known
/// whether it lives: it answers with a heartbeat, which may overtake.
struct PingMessage {
  double sent_s = 0;        // on the sender's clock; comes back
  bool wants_pong = false;  // too, behind all that was sent before
};
SWARMPI_FIELDS(PingMessage, sent_s, wants_pong);

/// Answer to a ping: the peer lives, the link carries, and all that was sent before has arrived.
struct PongMessage {
  double sent_s = 0;
};
SWARMPI_FIELDS(PongMessage, sent_s);

/// Peer to leader: this peer does not answer the sender. The leader, if it hears both, takes the
/// link between them as cut and has one of them killed.
struct SuspectMessage {
  PeerId peer;
};
SWARMPI_FIELDS(SuspectMessage, peer);

/// To a peer that asks something although it is known to be dead here: the others have continued
/// without it. It ends itself.
struct FencedMessage {};
SWARMPI_FIELDS(FencedMessage);

/// Peer to the leader, or to the next one: this peer is dead, as the sender sees it. From a peer
/// that departs to all: this peer is the sender, and sends nothing after it.
struct LostMessage {
  PeerId peer;
  bool left = false;     ///< it departed in good order
  std::string why = {};  ///< of a peer that gives itself up, for people
};
SWARMPI_FIELDS(LostMessage, peer, left, why);

}  // namespace swarmpi
