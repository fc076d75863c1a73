#pragma once
// Seam 2: messages between peers. Whatever carries them, they arrive whole, once, and in order from
// each sender, or not at all if the sender or the receiver dies. What overtakes() is in order only
// with its like (protocol/messages/lanes.hpp).

#include <cstdint>
#include <optional>

#include "core/ids.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// What a transport has carried to and from other ranks since its start. A message counts when all
/// of it was handed to MPI, or when all of it has arrived.
struct TransportCounters {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;  ///< headers and payloads
  std::int64_t messages_received = 0;
  std::int64_t bytes_received = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Takes the message on its way; never blocks. What is sent to a lost peer is dropped.
  virtual void send(PeerId to, Message message) = 0;
  /// The next MessageArrived, PeerLost, KillFailed, PeerSpawned or SpawnFailed, if any.
  virtual std::optional<Event> receive() = 0;
  /// Sleeps until something may have arrived, `wake_descriptor` is readable, or `timeout_s` is
  /// over. May return early.
  virtual void wait(int wake_descriptor, double timeout_s) = 0;
  /// Kills the process of a peer that does not answer, so that it is dead for all: each other peer
  /// gets its PeerLost. Where no rank in reach can kill it, this peer gets a KillFailed.
  virtual void kill(PeerId peer) = 0;
  /// Starts another process with a new peer. Answered by PeerSpawned or SpawnFailed.
  virtual void spawn() = 0;
  /// Whether the peer is to end at once and in silence: others have it killed without its process,
  /// or it can reach nobody any more.
  virtual bool ended() const { return false; }
  /// An order to kill the peer here that has come, and that it was not ended for yet, has no
  /// effect.
  virtual void drop_kill_order() {}
  /// For how long since its start something was on its way to or from this process: a message that
  /// had not left as a whole, or had arrived in part. What the network holds is not seen.
  virtual double carried_s() const { return 0; }
  /// Waits until all that was sent has left this process, `timeout_s` at most; says whether it did.
  virtual bool flush(double timeout_s) = 0;
};

}  // namespace swarmpi
