#pragma once
// Seam 2: messages between peers. Whatever carries them, they arrive whole, once, and in order from
// each sender, or not at all if the sender or the receiver dies.

#include <optional>

#include "core/ids.hpp"
#include "protocol/messages/ports.hpp"

namespace swarmpi {

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
  /// Sees to it that a peer that does not answer is dead: all hear of that by its PeerLost. Where
  /// nobody in reach can do it, a KillFailed comes.
  virtual void kill(PeerId peer) = 0;
  /// Starts another process with a new peer, where it can: answered by PeerSpawned or SpawnFailed.
  virtual void spawn() = 0;
  /// Gives what was sent `timeout_s` to leave this process; says whether all of it did.
  virtual bool flush(double timeout_s) = 0;
};

}  // namespace swarmpi
