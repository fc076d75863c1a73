#include "transport/loopback.hpp"

#include <utility>

#include "core/check.hpp"

namespace swarmpi {

void LoopbackTransport::send(PeerId to, Message message) {
  SWARMPI_CHECK(to == self_, "a peer that is alone sends to itself only");
  messages_.push_back(std::move(message));
}

std::optional<MessageArrived> LoopbackTransport::receive() {
  if (messages_.empty()) return std::nullopt;
  MessageArrived arrived{self_, std::move(messages_.front())};
  messages_.pop_front();
  return arrived;
}

}  // namespace swarmpi
