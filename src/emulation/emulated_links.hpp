#pragma once
// `compute.fidelity = "emulated"`: messages between peers take what they would take over the links
// that the deck gives them. A decorator of any transport: the sender holds a message until its
// first byte would come to the receiver's link, were the last to follow as fast as the sender's
// lines can, for it alone knows all that leaves it; the receiver holds it until it would have
// passed that link, for it alone knows all that comes to it. All on the protocol thread, which
// waits here for nothing but the lock of lines that processes share (lines_in_memory.hpp).

#include <optional>
#include <utility>

#include "core/clock.hpp"
#include "emulation/held_messages.hpp"
#include "hardware/network.hpp"
#include "protocol/messages/message.hpp"
#include "transport/transport.hpp"

namespace swarmpi {

/// Whether the messages of some peer are to be held up.
bool emulates_links(const Config& config);

class EmulatedLinks final : public Transport {
 public:
  /// The peer `self` lives here; `below` carries its messages, as fast as it can. `common`: the
  /// lines that it shares with peers of other processes; then `clock` is HostClock, the same in all
  /// of them. Null: it shares none. REQUIRES: `below`, `clock` and `common` outlive this.
  EmulatedLinks(PeerId self, Transport& below, const Config& config, const Clock& clock,
                CommonLines* common = nullptr);

  void send(PeerId to, Message message) override;
  std::optional<Event> receive() override;
  void wait(int wake_descriptor, double timeout_s) override;
  /// Orders to kill do not go over the links: processes give and take them.
  void kill(PeerId peer) override { below_.kill(peer); }
  void spawn() override { below_.spawn(); }
  bool ended() const override { return below_.ended(); }
  void drop_kill_order() override { below_.drop_kill_order(); }
  double carried_s() const override { return carried_s_; }
  /// What is still held when the time is over leaves at once.
  bool flush(double timeout_s) override;

  /// The peer that lives here is gone, with all that is on its way to and from it.
  void clear();
  /// From now on the peer `self` lives here.
  void admit(PeerId self) { self_ = self; }

 private:
  struct Departure {
    PeerId to;
    Message message;
  };

  struct Arrival {
    Event event;
    PeerId from;
    Nanoseconds sent = 0;  // when its last byte has left the sender's line
    Nanoseconds due = 0;
  };

  Nanoseconds now() const { return to_ns(clock_.now_s()); }
  /// Hands all to the transport below whose time has come.
  void release(Nanoseconds now);
  /// Takes what has come from below, and holds what is to wait. An event that need not.
  std::optional<Event> take_arrivals();
  /// Holds the event if it crosses the links; else it comes back.
  std::optional<Event> pass(Event event, Nanoseconds now);
  /// Holds the notice behind all that has come from the peer; of what was still leaving it the rest
  /// never comes.
  void hold_loss(const PeerLost& lost, Nanoseconds now);
  /// One that is held, and due.
  std::optional<Event> take_due(Nanoseconds now);
  /// Counts the time since the last call in which something was on its way.
  void book_time(Nanoseconds now);

  PeerId self_;
  Transport& below_;
  const Clock& clock_;
  Network network_;
  HeldMessages<Departure> departures_;
  HeldMessages<Arrival> arrivals_;
  Nanoseconds busy_until_ = 0;  // something leaves or arrives
  Nanoseconds booked_ = 0;
  double below_carried_s_ = 0;
  double carried_s_ = 0;
};

}  // namespace swarmpi
