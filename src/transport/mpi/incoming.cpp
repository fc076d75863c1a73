#include "transport/mpi/incoming.hpp"

#include <cstring>
#include <span>
#include <utility>

#include "core/check.hpp"
#include "protocol/messages/message.hpp"
#include "transport/mpi/send_window.hpp"
#include "transport/wire/wire.hpp"

namespace swarmpi {
namespace {

std::string malformed(int endpoint) {
  return "from endpoint " + std::to_string(endpoint) +
         " came a message with an invalid prefix: is every rank the same build of swarmpi?";
}

}  // namespace

Incoming::Incoming(Requests& requests, PayloadPool& payloads, int fragments_in_flight,
                   TransportCounters& counters)
    : requests_(requests),
      payloads_(payloads),
      fragments_in_flight_(fragments_in_flight),
      counters_(counters) {}

void Incoming::open(int endpoint) {
  const auto index = static_cast<std::size_t>(endpoint);
  if (lanes_.size() <= index) lanes_.resize(index + 1);
  Lane& lane = lanes_[index];
  lane.first = std::make_shared<std::vector<std::byte>>(kFirstPieceBytes);
  lane.beat = std::make_shared<std::vector<std::byte>>(kFirstPieceBytes);
  post_first(endpoint, lane);
  post_beat(endpoint, lane);
}

void Incoming::post_beat(int endpoint, Lane& lane) {
  requests_.receive(RequestKind::beat, endpoint, kBeatTag, lane.beat->data(), lane.beat->size(),
                    lane.beat);
}

std::optional<Incoming::InboundMessage> Incoming::overtaken(const Completion& done) {
  Lane& lane = lanes_[static_cast<std::size_t>(done.endpoint)];
  if (lane.lost) return std::nullopt;
  const std::span<const std::byte> head(lane.beat->data(), done.size_bytes);
  const std::optional<Frame> frame = Frame::read(head);
  SWARMPI_CHECK(frame && frame->total_bytes() == done.size_bytes && !frame->has_payload(),
                malformed(done.endpoint));
  InboundMessage inbound = unpacked(done.endpoint, *frame, head, nullptr);
  post_beat(done.endpoint, lane);
  return inbound;
}

std::size_t Incoming::to_acknowledge(int endpoint) {
  Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
  const std::size_t few_bytes = kFragmentsAcknowledged * lane.frame.fragment_bytes();
  if (lane.lost || lane.unacknowledged_bytes < few_bytes) return 0;
  return std::exchange(lane.unacknowledged_bytes, 0);
}

void Incoming::post_first(int endpoint, Lane& lane) {
  requests_.receive(RequestKind::head, endpoint, kStreamTag, lane.first->data(), lane.first->size(),
                    lane.first);
}

std::optional<Incoming::InboundMessage> Incoming::received(const Completion& done) {
  Lane& lane = lanes_[static_cast<std::size_t>(done.endpoint)];
  if (lane.lost) return std::nullopt;
  lane.unacknowledged_bytes += done.size_bytes;
  if (done.kind == RequestKind::head) {
    begin(done.endpoint, lane, done.size_bytes);
  } else {
    --lane.in_flight;
    lane.received_bytes += done.size_bytes;
  }
  if (lane.received_bytes < lane.frame.total_bytes()) {
    post_rest(done.endpoint, lane);
    return std::nullopt;
  }
  InboundMessage inbound = finish(done.endpoint, lane);
  post_first(done.endpoint, lane);
  return inbound;
}

void Incoming::begin(int endpoint, Lane& lane, std::size_t size_bytes) {
  const std::optional<Frame> frame = Frame::read({lane.first->data(), size_bytes});
  SWARMPI_CHECK(frame, malformed(endpoint));
  lane.frame = *frame;
  lane.head = lane.first;
  if (frame->head_bytes() > size_bytes) {
    lane.head = std::make_shared<std::vector<std::byte>>(frame->head_bytes());
    std::memcpy(lane.head->data(), lane.first->data(), size_bytes);
  }
  if (frame->has_payload() && !frame->is_hollow()) {
    lane.payload = payloads_.take(frame->payload_bytes());
  }
  lane.posted_bytes = lane.received_bytes = size_bytes;
  lane.under_way = true;
  ++expecting_;
}

void Incoming::post_rest(int endpoint, Lane& lane) {
  while (lane.posted_bytes < lane.frame.total_bytes() && lane.in_flight < fragments_in_flight_) {
    const Piece piece = lane.frame.piece(lane.posted_bytes);
    if (piece.of_payload) {
      requests_.receive(RequestKind::body, endpoint, kStreamTag,
                        lane.payload->data() + piece.offset, piece.size_bytes, lane.payload);
    } else {
      requests_.receive(RequestKind::body, endpoint, kStreamTag, lane.head->data() + piece.offset,
                        piece.size_bytes, lane.head);
    }
    lane.posted_bytes += piece.size_bytes;
    ++lane.in_flight;
  }
}

Incoming::InboundMessage Incoming::finish(int endpoint, Lane& lane) {
  const std::span<const std::byte> head(lane.head->data(), lane.frame.head_bytes());
  if (lane.frame.in_line() && lane.frame.payload_bytes() > 0) {
    const auto payload = lane.frame.in_line_payload(head);
    std::memcpy(lane.payload->data(), payload.data(), payload.size());
  }
  PayloadRef payload = std::move(lane.payload);
  if (lane.frame.is_hollow()) payload = Payload::hollow(lane.frame.payload_bytes());
  InboundMessage inbound = unpacked(endpoint, lane.frame, head, std::move(payload));
  lane.payload = nullptr;
  lane.head = nullptr;
  lane.under_way = false;
  --expecting_;
  return inbound;
}

Incoming::InboundMessage Incoming::unpacked(int endpoint, const Frame& frame,
                                            std::span<const std::byte> head, PayloadRef payload) {
  ++counters_.messages_received;
  counters_.bytes_received += static_cast<std::int64_t>(frame.total_bytes());
  Result<Message> message = unpack(frame.header(head), std::move(payload));
  SWARMPI_CHECK(message.ok(), message.status().message() + " from peer " +
                                  std::to_string(frame.address().from.value) + " (endpoint " +
                                  std::to_string(endpoint) +
                                  "): is every rank the same build of swarmpi?");
  return {frame.address(), std::move(message).value()};
}

void Incoming::drop(int endpoint) {
  Lane& lane = lanes_[static_cast<std::size_t>(endpoint)];
  if (lane.lost) return;
  lane.lost = true;
  if (lane.under_way) --expecting_;
  // What MPI may still write into is kept by its request.
  lane.payload = nullptr;
  lane.head = nullptr;
}

}  // namespace swarmpi
