#pragma once
// Messages on their way out: one queue per endpoint, and what overtakes it. MPI calls a fragment
// sent as soon as it has a copy, and takes any number of them for a slow link; so only what the
// receiver has said that it has taken counts as carried, and what is on its way to it is bounded by
// that.

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "core/clock.hpp"
#include "transport/mpi/doorbell.hpp"
#include "transport/mpi/requests.hpp"
#include "transport/mpi/send_window.hpp"
#include "transport/transport.hpp"
#include "transport/wire/frame.hpp"

namespace swarmpi {

class Outgoing {
 public:
  Outgoing(Requests& requests, Doorbell& doorbell, std::size_t fragment_bytes,
           int fragments_in_flight, TransportCounters& counters);

  /// From now on messages go to `endpoint`.
  void open(int endpoint);

  /// `overtakes`: it does not wait for what is queued. REQUIRES: then it is small.
  void send(int endpoint, Address address, Packed message, bool overtakes = false);
  /// A fragment to `endpoint` has left.
  void sent(int endpoint);
  /// The receiver has taken so many more bytes of the queue.
  void taken(int endpoint, std::size_t size_bytes);
  /// A message to `endpoint` that overtakes has left.
  void overtaken(int endpoint);
  /// Nothing goes to `endpoint` any more.
  void drop(int endpoint);
  /// Drops all messages of which no fragment has left yet.
  void recall();
  /// Sends on where the payload of a message has come (Payload::there()), which it waited for.
  void post_late();
  /// Rings the doorbell of each endpoint to which something was sent since the last call.
  void ring();
  /// Whether nothing is queued or in flight to endpoints that are not lost.
  bool idle() const { return pending_ == 0; }

 private:
  struct OutboundMessage {
    Address address;
    Packed message;
    // Both made when it leaves: the window says how it is cut, and the head may hold the payload.
    Frame frame = {};
    std::vector<std::byte> head = {};
    std::size_t posted_bytes = 0;
  };
  struct Lane {
    explicit Lane(std::size_t fragment_bytes) : window(fragment_bytes) {}

    std::deque<std::shared_ptr<OutboundMessage>> queue;  // those not posted as a whole
    int in_flight = 0;                                   // fragments that MPI has not taken
    int overtaking = 0;
    SendWindow window;
    bool to_ring = false;
    bool late = false;  // is in late_
    bool lost = false;
  };

  void overtake(int endpoint, Lane& lane, std::shared_ptr<OutboundMessage> outbound);
  void post(int endpoint, Lane& lane);
  static void cut(OutboundMessage& outbound, std::size_t fragment_bytes);
  void will_ring(int endpoint, Lane& lane);

  Requests& requests_;
  Doorbell& doorbell_;
  std::size_t fragment_bytes_;
  int fragments_in_flight_;
  TransportCounters& counters_;
  WallClock clock_;
  std::vector<Lane> lanes_;  // by endpoint
  std::vector<int> to_ring_;
  std::vector<int> late_;    // whose first message has waited for its payload
  std::size_t pending_ = 0;  // messages queued and fragments in flight
};

}  // namespace swarmpi
