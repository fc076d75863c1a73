#pragma once
// Who watches peers. The loop of a real peer (runtime/peer_loop.hpp) and a virtual world
// (simulation/world.hpp) make the same calls, so that every observer can watch either.

#include <vector>

#include "core/ids.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// Is told of everything that happens to a peer, and that it does, with the time on the clock of
/// the loop. A peer begins with the event Started, and ends with the action Finish or by its death.
class Observer {
 public:
  virtual ~Observer() = default;
  /// An event, before the peer handles it.
  virtual void happened(double /*now_s*/, PeerId, const Event&) {}
  /// An action, before it is carried out.
  virtual void asked(double /*now_s*/, PeerId, const Action&) {}
  /// All actions that the event led to are carried out.
  virtual void handled(double /*now_s*/, PeerId) {}
  /// The peer has died, or was declared dead.
  virtual void died(double /*now_s*/, PeerId) {}
};

/// Passes every call on to several, in the order in which they were added.
class Observers final : public Observer {
 public:
  void add(Observer& observer) { all_.push_back(&observer); }

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void handled(double now_s, PeerId peer) override;
  void died(double now_s, PeerId peer) override;

 private:
  std::vector<Observer*> all_;
};

}  // namespace swarmpi
