#include "emulation/filled_payloads.hpp"

#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "emulation/emulated_links.hpp"
#include "protocol/messages/message_table.hpp"

namespace swarmpi {
namespace {

// `changed` is not asked where there is no payload.
template <class Change>
void change_payload(Message& message, Change changed) {
  const auto change = [&changed]<class Field>(std::string_view, Field& field) {
    if constexpr (std::is_same_v<Field, PayloadRef>) {
      if (field) field = changed(field);
    }
  };
  visit([&](auto& body) { for_each_field(body, change); }, message.body);
}

}  // namespace

bool fills_payloads(const Config& config) {
  return config.compute.kernels == Kernels::none && !emulates_links(config);
}

void FilledPayloads::send(PeerId to, Message message) {
  const auto zeros_of = [this](std::size_t bytes) { return zeros(bytes); };
  change_payload(message, [&](const PayloadRef& payload) -> PayloadRef {
    if (payload->data() != nullptr) return payload;
    return std::make_shared<Payload>(payload->size_bytes(), zeros_of);
  });
  below_.send(to, std::move(message));
}

std::optional<Event> FilledPayloads::receive() {
  std::optional<Event> event = below_.receive();
  if (auto* const arrived = event ? get_if<MessageArrived>(&*event) : nullptr) {
    change_payload(arrived->message, [](const PayloadRef& payload) {
      return Payload::hollow(payload->size_bytes());
    });
  }
  return event;
}

std::shared_ptr<std::byte> FilledPayloads::zeros(std::size_t size_bytes) {
  if (size_bytes > zeros_bytes_) {
    zeros_ = {new std::byte[size_bytes](), std::default_delete<std::byte[]>()};
    zeros_bytes_ = size_bytes;
  }
  return zeros_;
}

}  // namespace swarmpi
