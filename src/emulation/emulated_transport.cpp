#include "emulation/emulated_transport.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "emulation/fault_clock.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi {
namespace {

// How often a peer that is stopped looks whether it still is.
constexpr auto kStoppedPoll = std::chrono::milliseconds(2);

}  // namespace

void EmulatedTransport::send(PeerId to, Message message) {
  if (ended()) return;
  if (to == self_) return below_.send(to, std::move(message));
  depart(
      [this, to, message = std::move(message)]() mutable { below_.send(to, std::move(message)); });
}

void EmulatedTransport::depart(std::function<void()> leave) {
  departures_.push_back(std::move(leave));
  release_departures();
}

void EmulatedTransport::release_departures() {
  if (cut_) return;
  for (const std::function<void()>& leave : std::exchange(departures_, {})) leave();
}

std::optional<Event> EmulatedTransport::receive() {
  while (stopped_ && !ended()) {
    below_.flush(0);
    drop_what_a_cut_stops();
    std::this_thread::sleep_for(kStoppedPoll);
  }
  release_departures();
  while (cut_ || arrivals_.empty()) {
    std::optional<Event> event = below_.receive();
    drop_what_a_cut_stops();
    if (!event || !crosses_links(*event)) return event;
    arrivals_.push_back(*std::move(event));
  }
  Event event = std::move(arrivals_.front());
  arrivals_.pop_front();
  return event;
}

bool EmulatedTransport::crosses_links(const Event& event) const {
  const auto* arrived = get_if<MessageArrived>(&event);
  return arrived ? arrived->from != self_ : holds_alternative<PeerLost>(event);
}

void EmulatedTransport::wait(int wake_descriptor, double timeout_s) {
  const bool healed = !cut_ && !(departures_.empty() && arrivals_.empty());
  if (ended() || healed) return;
  below_.wait(wake_descriptor, timeout_s);
  drop_what_a_cut_stops();
}

void EmulatedTransport::drop_what_a_cut_stops() {
  if (cut_) below_.drop_kill_order();
}

void EmulatedTransport::kill(PeerId peer) {
  if (!cut_) return below_.kill(peer);
  inbox_.post(KillFailed{peer});
}

bool EmulatedTransport::flush(double timeout_s) {
  release_departures();
  const bool flushed = below_.flush(timeout_s);
  drop_what_a_cut_stops();
  return flushed;
}

// ---- Faults, and one peer after another

void EmulatedTransport::inject_fault(FaultEvent event) {
  switch (event) {
    case FaultEvent::notice:
      if (!dead_) inbox_.post(StopRequested{kNoticeFromDeck});
      break;
    case FaultEvent::kill:
      dead_ = true;
      break;
    case FaultEvent::stop:
      stopped_ = true;
      break;
    case FaultEvent::go_on:
      stopped_ = false;
      break;
    case FaultEvent::cut:
      cut_ = true;
      break;
    case FaultEvent::heal:
      cut_ = false;
      break;
    case FaultEvent::join:
    case FaultEvent::flip:
      break;  // do not befall a peer that lives
  }
  inbox_.wake();
}

void EmulatedTransport::clear() {
  dead_ = true;
  departures_.clear();
  arrivals_.clear();
}

void EmulatedTransport::admit(PeerId self) {
  self_ = self;
  arrivals_.clear();
  dead_ = stopped_ = cut_ = false;
}

}  // namespace swarmpi
