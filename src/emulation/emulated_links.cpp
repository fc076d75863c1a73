#include "emulation/emulated_links.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "protocol/messages/lanes.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/transport_port.hpp"
#include "transport/wire/frame.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi {
namespace {

// The number of fragments depends on it, the total size does not.
constexpr std::size_t kAnyFragmentBytes = 1 << 16;
// While all leaves at the end: between two looks at the transport below.
constexpr double kFlushPollS = 1e-3;

Shipment shipment(PeerId from, PeerId to, const Message& message) {
  const Frame frame(pack(message), kAnyFragmentBytes);
  return {from, to, static_cast<std::int64_t>(frame.modelled_bytes()), overtakes(message)};
}

}  // namespace

bool emulates_links(const Config& config) {
  if (config.compute.fidelity != Fidelity::emulated) return false;
  return std::any_of(config.peer_classes.begin(), config.peer_classes.end(),
                     [](const auto& row) { return !row.link.empty() || !row.site.empty(); });
}

EmulatedLinks::EmulatedLinks(PeerId self, Transport& below, const Config& config,
                             const Clock& clock, CommonLines* common)
    : self_(self), below_(below), clock_(clock), network_(config, kAhead, common) {}

void EmulatedLinks::send(PeerId to, Message message) {
  if (to == self_) return below_.send(to, std::move(message));
  const Nanoseconds now = this->now();
  book_time(now);
  release(now);
  const Shipment sent = shipment(self_, to, message);
  const Passage passage = network_.leave(sent, now);
  const Nanoseconds delay = passage.first - now;
  busy_until_ = std::max(busy_until_, passage.last - delay);
  const Nanoseconds leaves = passage.last - network_.spread(sent);
  if (leaves <= now && departures_.is_free(to, sent.overtakes, now)) {
    return below_.send(to, std::move(message));
  }
  departures_.hold(to, sent.overtakes, leaves, {to, std::move(message)});
}

std::optional<Event> EmulatedLinks::receive() {
  const Nanoseconds now = this->now();
  book_time(now);
  release(now);
  if (std::optional<Event> due = take_due(now)) return due;
  return take_arrivals();
}

// The transport below may take its time, as it does where the peer is stopped.
std::optional<Event> EmulatedLinks::take_arrivals() {
  while (std::optional<Event> event = below_.receive()) {
    if (std::optional<Event> passed = pass(*std::move(event), now())) return passed;
  }
  return take_due(now());
}

std::optional<Event> EmulatedLinks::take_due(Nanoseconds now) {
  std::optional<Arrival> due = arrivals_.take(now);
  return due ? std::optional(std::move(due->event)) : std::nullopt;
}

void EmulatedLinks::hold_loss(const PeerLost& lost, Nanoseconds now) {
  Nanoseconds last = now + network_.latency(lost.peer, self_);
  arrivals_.drop(lost.peer, [&](const Arrival& held) {
    const bool goes = held.from == lost.peer && held.sent > now;
    if (held.from == lost.peer && !goes) last = std::max(last, held.due);
    return goes;
  });
  arrivals_.hold(lost.peer, false, last, {lost, lost.peer, now, last});
}

std::optional<Event> EmulatedLinks::pass(Event event, Nanoseconds now) {
  const auto* arrived = get_if<MessageArrived>(&event);
  const auto* lost = get_if<PeerLost>(&event);
  if (lost != nullptr) {
    hold_loss(*lost, now);
    return take_due(now);
  }
  if (arrived == nullptr || arrived->from == self_) return event;
  const PeerId from = arrived->from;
  const Shipment received = shipment(from, self_, arrived->message);
  const Nanoseconds sent = now + network_.spread(received);
  const Nanoseconds due = network_.arrive(received, {now, sent});
  busy_until_ = std::max(busy_until_, due);
  if (due <= now && arrivals_.is_free(from, received.overtakes, now)) return event;
  arrivals_.hold(from, received.overtakes, due, {std::move(event), from, sent, due});
  return std::nullopt;
}

void EmulatedLinks::wait(int wake_descriptor, double timeout_s) {
  const Nanoseconds now = this->now();
  book_time(now);
  release(now);
  double left_s = timeout_s;
  for (const auto& due : {departures_.next_due(), arrivals_.next_due()}) {
    if (due) left_s = std::min(left_s, to_s(*due - now));
  }
  if (left_s > 0) below_.wait(wake_descriptor, left_s);
  book_time(this->now());  // carried_s() may be read before anything is received: for a timer
}

bool EmulatedLinks::flush(double timeout_s) {
  const Nanoseconds end = now() + to_ns(timeout_s);
  while (!departures_.empty() && now() < end) {
    below_.flush(0);
    std::this_thread::sleep_for(std::chrono::duration<double>(kFlushPollS));
    release(now());
  }
  const Nanoseconds over = now();
  while (auto departure = departures_.take(std::numeric_limits<Nanoseconds>::max())) {
    below_.send(departure->to, std::move(departure->message));
  }
  return below_.flush(std::max(kFlushPollS, to_s(end - over)));
}

void EmulatedLinks::release(Nanoseconds now) {
  while (auto departure = departures_.take(now)) {
    below_.send(departure->to, std::move(departure->message));
  }
}

void EmulatedLinks::book_time(Nanoseconds now) {
  const Nanoseconds busy = std::clamp(busy_until_ - booked_, Nanoseconds{0}, now - booked_);
  const double below_s = below_.carried_s() - below_carried_s_;
  carried_s_ += std::max(to_s(busy), below_s);
  below_carried_s_ += below_s;
  booked_ = now;
}

void EmulatedLinks::clear() {
  departures_.clear();
  arrivals_.clear();
}

}  // namespace swarmpi
