#pragma once
// A transport whose peer the deck's faults befall: it falls silent, is stopped, or is cut off from
// all others. Its messages travel over another transport, which knows nothing of this.

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "config/choices.hpp"
#include "protocol/messages/message.hpp"
#include "runtime/inbox.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

class EmulatedTransport final : public Transport {
 public:
  /// The peer `self` lives here, and reads `inbox`. `below` carries its messages.
  EmulatedTransport(PeerId self, Transport& below, Inbox& inbox)
      : self_(self), below_(below), inbox_(inbox) {}

  void send(PeerId to, Message message) override;
  /// Returns only when the peer is not stopped.
  std::optional<Event> receive() override;
  void wait(int wake_descriptor, double timeout_s) override;
  void kill(PeerId peer) override;
  void spawn() override { below_.spawn(); }
  bool flush(double timeout_s) override;
  /// An order to kill this peer that comes while it is cut off is lost. The end of the run is not:
  /// the processes know of it, whatever happens to their peers.
  bool ended() const override { return dead_ || below_.ended(); }
  void drop_kill_order() override { below_.drop_kill_order(); }
  double carried_s() const override { return below_.carried_s(); }

  /// Any thread may call. `join` and `flip` are not for a transport.
  void inject_fault(FaultEvent event);
  /// Has something leave for other peers: at once, or, where a cut is in the way, when it is
  /// healed. In order.
  void depart(std::function<void()> leave);
  /// The peer that lives here is gone, with all that has not left.
  void clear();
  /// From now on the peer `self` lives here, and none of the faults of the one before.
  void admit(PeerId self);

 private:
  void release_departures();
  /// After a look at the transport below.
  void drop_what_a_cut_stops();
  /// Whether a cut holds this event up.
  bool crosses_links(const Event& event) const;

  PeerId self_;
  Transport& below_;
  Inbox& inbox_;
  std::atomic<bool> dead_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> cut_ = false;
  std::vector<std::function<void()>> departures_;  // held by a cut
  std::deque<Event> arrivals_;                     // likewise
};

}  // namespace swarmpi
