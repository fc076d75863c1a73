#include "protocol/messages/message_table.hpp"

#include <string_view>
#include <type_traits>

#include "core/opaque_variant_members.hpp"

namespace swarmpi {

template class OpaqueVariant<MessageKinds>;

const MessageTraits& traits_of(const MessageBody& body) {
  return kMessageTable.rows[body.number()];
}

PayloadRef payload_in(const Message& message) {
  PayloadRef found;
  const auto look_at = [&found]<class Field>(std::string_view, const Field& field) {
    if constexpr (std::is_same_v<Field, PayloadRef>) found = field;
  };
  visit([&](const auto& body) { for_each_field(body, look_at); }, message.body);
  return found;
}

}  // namespace swarmpi
