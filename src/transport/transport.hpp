#pragma once
// Seam 2: messages between peers. Whatever carries them, they arrive whole, once, and in order from
// each sender, or not at all if the sender or the receiver dies.

#include <optional>

#include "core/ids.hpp"
#include "swarm/ports.hpp"

namespace swarmpi {

class Transport {
 public:
  virtual ~Transport() = default;
  /// Takes the message on its way; never blocks.
  virtual void send(PeerId to, Message message) = 0;
  /// The next message that has arrived, if any.
  virtual std::optional<MessageArrived> receive() = 0;
};

}  // namespace swarmpi
