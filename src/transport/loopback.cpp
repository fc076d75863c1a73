#include "transport/loopback.hpp"

#include <poll.h>

#include <cmath>
#include <utility>

#include "core/check.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi {

void LoopbackTransport::send(PeerId to, Message message) {
  SWARMPI_CHECK(to == self_, "the only peer of a run sends to itself only");
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

void LoopbackTransport::kill(PeerId) {
  SWARMPI_CHECK(false, "the only peer of a run has no other to kill");
}

void LoopbackTransport::spawn() {
  events_.emplace_back(SpawnFailed{"a run without MPI starts no processes"});
}

bool LoopbackTransport::flush(double) { return true; }

}  // namespace swarmpi
