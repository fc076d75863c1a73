#pragma once
// Messages on their way out: one queue per end, a bounded number of fragments of each in flight.

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "transport/counters.hpp"
#include "transport/mpi/doorbell.hpp"
#include "transport/mpi/requests.hpp"
#include "transport/wire/frame.hpp"

namespace swarmpi {

class Outgoing {
 public:
  Outgoing(Requests& requests, Doorbell& doorbell, std::size_t fragment_bytes,
           int fragments_in_flight, TransportCounters& counters);

  /// From now on messages go to `end`.
  void open(int end);

  void send(int end, Address address, Packed message);
  /// A fragment to `end` has left.
  void sent(int end);
  /// Nothing goes to `end` any more.
  void drop(int end);
  /// Forgets all of which nothing has left yet.
  void recall();
  /// Rings at those who were sent something since the last time.
  void ring();
  /// Nothing waits or is in flight to ranks that live.
  bool idle() const { return pending_ == 0; }

 private:
  struct OutboundMessage {
    Frame frame;
    std::vector<std::byte> head;
    PayloadRef payload;
    std::size_t posted_bytes = 0;
  };
  struct Lane {
    std::deque<std::shared_ptr<OutboundMessage>> queue;  // those not posted as a whole
    int in_flight = 0;
    bool to_ring = false;
    bool lost = false;
  };

  void post(int end, Lane& lane);

  Requests& requests_;
  Doorbell& doorbell_;
  std::size_t fragment_bytes_;
  int fragments_in_flight_;
  TransportCounters& counters_;
  std::vector<Lane> lanes_;  // by end
  std::vector<int> to_ring_;
  std::size_t pending_ = 0;  // letters queued and fragments in flight
};

}  // namespace swarmpi
