#pragma once
// Messages on their way in: from each end one stream, put together again in order.
//
// A receive is posted by name for the next first piece of every end; when it tells of more, the
// receives of that follow, straight into a payload. Receives from any source would have to be
// enabled again after every death, and would give no way to wait with a piece.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "core/payload.hpp"
#include "protocol/messages/messages.hpp"
#include "transport/counters.hpp"
#include "transport/mpi/requests.hpp"
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

  /// From now on messages come from `end`.
  void open(int end);

  /// A piece from done.rank is here; returns what it completes.
  std::optional<InboundMessage> received(const Completion& done);
  /// Nothing comes from `end` any more; what is half here is gone.
  void drop(int end);
  /// Something of which the rest must follow has begun.
  bool expecting() const { return expecting_ > 0; }

 private:
  struct Lane {
    std::shared_ptr<std::vector<std::byte>> first;  // room for a first piece
    std::shared_ptr<std::vector<std::byte>> head;   // of a message under way; may be `first`
    std::shared_ptr<Payload> payload;
    Frame frame;
    std::size_t posted_bytes = 0;
    std::size_t received_bytes = 0;
    int in_flight = 0;
    bool under_way = false;
    bool lost = false;
  };

  void post_first(int end, Lane& lane);
  void post_rest(int end, Lane& lane);
  void begin(Lane& lane, std::size_t size_bytes);
  InboundMessage finish(int end, Lane& lane);

  Requests& requests_;
  PayloadPool& payloads_;
  int fragments_in_flight_;
  TransportCounters& counters_;
  std::vector<Lane> lanes_;  // by end
  int expecting_ = 0;        // lanes under way
};

}  // namespace swarmpi
