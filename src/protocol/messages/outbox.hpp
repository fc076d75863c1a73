#pragma once
// Collects the actions of one event, and stamps messages with the incarnation and view that they
// are sent in.

#include <memory>

#include "core/ids.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

class Outbox {
 public:
  Outbox() : actions_(std::make_shared<Actions>()) {}
  /// Another outbox with its own stamp for the same actions: a leader sends in its new view before
  /// the replica host of the same peer has adopted that.
  Outbox beside() const {
    Outbox other(actions_);
    other.incarnation_ = incarnation_;
    other.view_ = view_;
    return other;
  }

  void set_incarnation(Incarnation incarnation) { incarnation_ = incarnation; }
  void set_view(ViewNumber view) { view_ = view; }

  void send(PeerId to, MessageBody body);
  void act(Action action);
  Actions take();

 private:
  explicit Outbox(const std::shared_ptr<Actions>& actions) : actions_(actions) {}

  Incarnation incarnation_;
  ViewNumber view_;
  std::shared_ptr<Actions> actions_;
};

}  // namespace swarmpi
