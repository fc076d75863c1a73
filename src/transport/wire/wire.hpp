#pragma once
// A message as bytes: a header with all its fields, and beside it the payload, if it has one. A
// payload is never copied.

#include <cstddef>
#include <span>
#include <vector>

#include "core/payload.hpp"
#include "core/status.hpp"
#include "protocol/messages/message.hpp"

namespace swarmpi {

struct Packed {
  std::vector<std::byte> header;
  PayloadRef payload;  ///< null where the message has none
};

Packed pack(const Message& message);
/// Errors: failed, with what is invalid and in which message: "invalid bool (7) in ViewMessage".
Result<Message> unpack(std::span<const std::byte> header, PayloadRef payload);

}  // namespace swarmpi
