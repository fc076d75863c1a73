#include "protocol/messages/messages.hpp"

namespace swarmpi {

static_assert(std::is_nothrow_move_constructible_v<MessageBody::Variant> &&
                  std::is_nothrow_move_assignable_v<MessageBody::Variant>,
              "as MessageBody says");

MessageBody::MessageBody() = default;
MessageBody::MessageBody(const MessageBody&) = default;
MessageBody::MessageBody(MessageBody&&) noexcept = default;
MessageBody& MessageBody::operator=(const MessageBody&) = default;
MessageBody& MessageBody::operator=(MessageBody&&) noexcept = default;
MessageBody::~MessageBody() = default;

}  // namespace swarmpi
