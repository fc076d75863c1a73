#include "transport/loopback.hpp"

#include <poll.h>

#include <cmath>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {

void LoopbackTransport::send(PeerId to, Message message) {
  SWARMPI_CHECK(to == self_, "a peer that is alone sends to itself only");
  events_.emplace_back(MessageArrived{to, std::move(message)});
}

std::optional<Event> LoopbackTransport::receive() {
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void LoopbackTransport::wait(int wake_descriptor, double timeout_s) {
  if (!events_.empty()) return;
  pollfd wake{wake_descriptor, POLLIN, 0};
  poll(&wake, 1, static_cast<int>(std::ceil(timeout_s * 1e3)));
}

void LoopbackTransport::kill(PeerId) { SWARMPI_CHECK(false, "a peer that is alone has no others"); }

void LoopbackTransport::spawn() {
  events_.emplace_back(SpawnFailed{"a peer that is alone starts no others"});
}

bool LoopbackTransport::flush(double) { return true; }

}  // namespace swarmpi
