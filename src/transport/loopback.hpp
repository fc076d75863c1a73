#pragma once
// The transport of the only peer of a run: what it sends to itself arrives in order. It does not
// use MPI.

#include <deque>

#include "protocol/messages/message.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

class LoopbackTransport final : public Transport {
 public:
  explicit LoopbackTransport(PeerId self) : self_(self) {}
  void send(PeerId to, Message message) override;
  std::optional<Event> receive() override;
  void wait(int wake_descriptor, double timeout_s) override;
  void kill(PeerId peer) override;
  void spawn() override;
  bool flush(double timeout_s) override;

 private:
  PeerId self_;
  std::deque<Event> events_;
};

}  // namespace swarmpi
