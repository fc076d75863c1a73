#pragma once
// Messages on their way in: from each endpoint one stream of pieces, put together again in order.
//
// For every endpoint a receive of the next first piece is posted; when that announces more,
// receives of the rest follow, straight into a payload. What overtakes has a receive of its own.
// Receives from any source (MPI_ANY_SOURCE) would have to be enabled again after every death, and a
// piece could not be left waiting.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/payload.hpp"
#include "protocol/messages/message.hpp"
#include "transport/mpi/requests.hpp"
#include "transport/transport.hpp"
#include "transport/wire/frame.hpp"

namespace swarmpi {

class Incoming {
 public:
  struct InboundMessage {
    Address address;
    Message message;
  };

  Incoming(Requests& requests, PayloadPool& payloads, int fragments_in_flight,
           TransportCounters& counters);

  /// From now on messages come from `endpoint`.
  void open(int endpoint);

  /// A piece from done.endpoint has arrived; returns the message that it completes, if it does.
  std::optional<InboundMessage> received(const Completion& done);
  /// A message that overtakes the stream of done.endpoint has arrived; nothing if that is lost.
  std::optional<InboundMessage> overtaken(const Completion& done);
  /// So many bytes of the stream of `endpoint` have arrived since it was last told so; 0 while they
  /// are few. From now on it was told.
  std::size_t to_acknowledge(int endpoint);
  /// Nothing comes from `endpoint` any more; a message that has arrived in part is dropped.
  void drop(int endpoint);
  /// Whether a message has arrived in part, so that more pieces must come.
  bool expecting() const { return expecting_ > 0; }

 private:
  struct Lane {
    std::shared_ptr<std::vector<std::byte>> first;  // room for a first piece
    std::shared_ptr<std::vector<std::byte>> beat;   // room for what overtakes
    std::shared_ptr<std::vector<std::byte>> head;   // of a message under way; may be `first`
    std::shared_ptr<Payload> payload;
    Frame frame;
    std::size_t posted_bytes = 0;
    std::size_t received_bytes = 0;
    std::size_t unacknowledged_bytes = 0;
    int in_flight = 0;
    bool under_way = false;
    bool lost = false;
  };

  void post_first(int endpoint, Lane& lane);
  void post_beat(int endpoint, Lane& lane);
  void post_rest(int endpoint, Lane& lane);
  void begin(int endpoint, Lane& lane, std::size_t size_bytes);
  InboundMessage finish(int endpoint, Lane& lane);
  /// Counts a message whose head and payload are here, and unpacks it.
  InboundMessage unpacked(int endpoint, const Frame& frame, std::span<const std::byte> head,
                          PayloadRef payload);

  Requests& requests_;
  PayloadPool& payloads_;
  int fragments_in_flight_;
  TransportCounters& counters_;
  std::vector<Lane> lanes_;  // by endpoint
  int expecting_ = 0;        // lanes under way
};

}  // namespace swarmpi
