#include "transport/mpi/outgoing.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"

namespace swarmpi {

Outgoing::Outgoing(Requests& requests, Doorbell& doorbell, std::size_t fragment_bytes,
                   int fragments_in_flight, TransportCounters& counters)
    : requests_(requests),
      doorbell_(doorbell),
      fragment_bytes_(fragment_bytes),
      fragments_in_flight_(fragments_in_flight),
      counters_(counters) {
  SWARMPI_CHECK(fragment_bytes >= SendWindow::kSmallestFragmentBytes,
                "a slow link has smaller fragments than others");
}

void Outgoing::open(int endpoint) {
  const auto index = static_cast<std::size_t>(endpoint);
  while (lanes_.size() <= index) lanes_.emplace_back(fragment_bytes_);
}

void Outgoing::send(int endpoint, Address address, Packed message, bool overtakes) {
  Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
  if (lane.lost) return;
  auto outbound = std::make_shared<OutboundMessage>();
  outbound->address = address;
  outbound->message = std::move(message);
  if (overtakes) return overtake(endpoint, lane, std::move(outbound));
  lane.queue.push_back(std::move(outbound));
  ++pending_;
  post(endpoint, lane);
}

void Outgoing::overtake(int endpoint, Lane& lane, std::shared_ptr<OutboundMessage> outbound) {
  cut(*outbound, fragment_bytes_);
  const std::size_t size_bytes = outbound->frame.total_bytes();
  SWARMPI_CHECK(size_bytes == outbound->frame.piece(0).size_bytes, "what overtakes is small");
  requests_.send(RequestKind::beat_send, endpoint, kBeatTag, outbound->head.data(), size_bytes,
                 outbound);
  ++lane.overtaking;
  ++pending_;
  ++counters_.messages_sent;
  counters_.bytes_sent += static_cast<std::int64_t>(size_bytes);
  will_ring(endpoint, lane);
}

void Outgoing::post(int endpoint, Lane& lane) {
  while (!lane.queue.empty() && lane.in_flight < fragments_in_flight_) {
    const std::shared_ptr<OutboundMessage>& outbound = lane.queue.front();
    const PayloadRef& payload = outbound->message.payload;
    if (payload && !payload->there()) {
      if (!std::exchange(lane.late, true)) late_.push_back(endpoint);
      return;
    }
    if (outbound->head.empty()) cut(*outbound, lane.window.fragment_bytes(clock_.now_s()));
    const Piece piece = outbound->frame.piece(outbound->posted_bytes);
    if (!lane.window.admits(piece.size_bytes)) return;
    if (outbound->posted_bytes == 0) lane.window.cut_into(outbound->frame.fragment_bytes());
    lane.window.sent(piece.size_bytes, clock_.now_s());
    const std::byte* from = piece.of_payload ? payload->data() : outbound->head.data();
    requests_.send(RequestKind::send, endpoint, kStreamTag, from + piece.offset, piece.size_bytes,
                   outbound);
    outbound->posted_bytes += piece.size_bytes;
    ++lane.in_flight;
    ++pending_;
    will_ring(endpoint, lane);
    if (outbound->posted_bytes < outbound->frame.total_bytes()) continue;
    ++counters_.messages_sent;
    counters_.bytes_sent += static_cast<std::int64_t>(outbound->posted_bytes);
    lane.queue.pop_front();
    --pending_;
  }
}

void Outgoing::cut(OutboundMessage& outbound, std::size_t fragment_bytes) {
  outbound.frame = Frame(outbound.message, fragment_bytes, outbound.address);
  outbound.head = outbound.frame.head(outbound.message);
}

void Outgoing::post_late() {
  for (const int endpoint : std::exchange(late_, {})) {
    Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
    lane.late = false;
    if (!lane.lost) post(endpoint, lane);
  }
}

void Outgoing::will_ring(int endpoint, Lane& lane) {
  if (!std::exchange(lane.to_ring, true)) to_ring_.push_back(endpoint);
}

void Outgoing::taken(int endpoint, std::size_t size_bytes) {
  Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
  if (lane.lost) return;
  lane.window.taken(size_bytes, clock_.now_s());
  post(endpoint, lane);
}

void Outgoing::overtaken(int endpoint) {
  Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
  if (lane.lost) return;
  --lane.overtaking;
  --pending_;
}

void Outgoing::sent(int endpoint) {
  Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
  if (lane.lost) return;
  --lane.in_flight;
  --pending_;
  post(endpoint, lane);
}

void Outgoing::drop(int endpoint) {
  Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
  if (lane.lost) return;
  lane.lost = true;
  pending_ -= lane.queue.size() + static_cast<std::size_t>(lane.in_flight + lane.overtaking);
  lane.queue.clear();
}

void Outgoing::recall() {
  for (Lane& lane : lanes_) {
    const auto begun = [](const auto& outbound) { return outbound->posted_bytes > 0; };
    const auto first = std::find_if_not(lane.queue.begin(), lane.queue.end(), begun);
    pending_ -= static_cast<std::size_t>(lane.queue.end() - first);
    lane.queue.erase(first, lane.queue.end());
  }
}

void Outgoing::ring() {
  for (const int endpoint : to_ring_) {
    lanes_[static_cast<std::size_t>(endpoint)].to_ring = false;
    doorbell_.ring(endpoint);
  }
  to_ring_.clear();
}

}  // namespace swarmpi
