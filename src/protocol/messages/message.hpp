#pragma once
// A message in its envelope, whatever it says.

#include <cstdint>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

/// A message as it is sent, with the incarnation and the view of its sender: the receiver drops it
/// if the incarnation is older than its own, and lets it wait until it has that view.
struct Message {
  Incarnation incarnation;
  ViewNumber view;
  MessageBody body;
};
SWARMPI_FIELDS(Message, incarnation, view, body);

/// Bytes of a payload; 0 where there is none.
inline std::int64_t size_of(const PayloadRef& payload) {
  return payload ? static_cast<std::int64_t>(payload->size_bytes()) : 0;
}
/// The payload that it carries; null if there is none.
PayloadRef payload_in(const Message& message);
inline std::int64_t payload_bytes(const Message& message) { return size_of(payload_in(message)); }

/// Action: send it.
struct Send {
  PeerId to;
  Message message;
};
SWARMPI_FIELDS(Send, to, message);

/// Event: it has come.
struct MessageArrived {
  PeerId from;
  Message message;
};
SWARMPI_FIELDS(MessageArrived, from, message);

}  // namespace swarmpi
