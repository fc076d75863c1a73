#include "protocol/messages/outbox.hpp"

#include <utility>

#include "protocol/messages/message.hpp"

namespace swarmpi {

void Outbox::send(PeerId to, MessageBody body) {
  actions_->push_back(Send{to, Message{incarnation_, view_, std::move(body)}});
}

void Outbox::act(Action action) { actions_->push_back(std::move(action)); }

Actions Outbox::take() { return std::exchange(*actions_, {}); }

}  // namespace swarmpi
