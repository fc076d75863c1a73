#include "transport/loopback.hpp"

#include <poll.h>

#include <cmath>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {

void LoopbackTransport::send(PeerId to, Message message) {
  SWARMPI_CHECK(to == self_, "a peer that is alone sends to itself only");
  messages_.push_back(std::move(message));
}

std::optional<Event> LoopbackTransport::receive() {
  if (messages_.empty()) return std::nullopt;
  MessageArrived arrived{self_, std::move(messages_.front())};
  messages_.pop_front();
  return arrived;
}

void LoopbackTransport::wait(int wake_descriptor, double timeout_s) {
  if (!messages_.empty()) return;
  pollfd wake{wake_descriptor, POLLIN, 0};
  poll(&wake, 1, static_cast<int>(std::ceil(timeout_s * 1e3)));
}

void LoopbackTransport::kill(PeerId) { SWARMPI_CHECK(false, "a peer that is alone has no others"); }

bool LoopbackTransport::flush(double) { return true; }

}  // namespace swarmpi
