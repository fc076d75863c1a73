#pragma once
// Collects the actions of one event, and stamps messages with the incarnation and view they were
// sent in.

#include <utility>

#include "swarm/ports.hpp"

namespace swarmpi {

class Outbox {
 public:
  void set_incarnation(Incarnation incarnation) { incarnation_ = incarnation; }
  void set_view(ViewNumber view) { view_ = view; }

  void send(PeerId to, MessageBody body) {
    actions_.push_back(Send{to, Message{incarnation_, view_, std::move(body)}});
  }
  void act(Action action) { actions_.push_back(std::move(action)); }
  Actions take() { return std::exchange(actions_, {}); }

 private:
  Incarnation incarnation_;
  ViewNumber view_;
  Actions actions_;
};

}  // namespace swarmpi
