#pragma once
// Messages over MPI, point to point only. PeerId is the rank. A rank that is lost is an event; what
// lives goes on.

#include <cstddef>
#include <memory>

#include "core/payload.hpp"
#include "transport/counters.hpp"
#include "transport/mpi_session.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

struct MpiTransportOptions {
  /// Larger messages travel in fragments. Above 64 KiB lost ranks may take others along.
  std::size_t fragment_bytes = 65536;
  /// To and from each rank.
  int fragments_in_flight = 32;
  /// Senders of the same host wake a sleeping receiver.
  bool doorbell = true;
  /// How long at most it sleeps without looking, where nobody rings: from other hosts, and when
  /// ranks are lost.
  double longest_sleep_s = 2e-3;
};

class MpiTransport final : public Transport {
 public:
  /// All ranks of the session must make theirs. One at a time; both referred-to objects outlive it.
  MpiTransport(MpiSession& session, PayloadPool& payloads, MpiTransportOptions options = {});
  /// What was not flushed may be lost.
  ~MpiTransport() override;

  /// What is sent to this very rank arrives in order with all else, its payload not copied.
  void send(PeerId to, Message message) override;
  /// A rank's messages that have arrived whole come before its PeerLost, once per rank.
  std::optional<Event> receive() override;
  void wait(int wake_descriptor, double timeout_s) override;
  /// Itself where it lives on this host, else by the order of a rank that lives on that one's.
  void kill(PeerId peer) override;
  /// Says true when MPI has taken charge of all of it: that proves nothing about its arrival.
  bool flush(double timeout_s) override;

  TransportCounters counters() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace swarmpi
