#pragma once
// What is said of each kind of message in message_table.hpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/field_list.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

/// What a message is for.
enum class MessageClass : std::uint8_t {
  boundary,   ///< activations and their gradients
  wiring,     ///< issues, and what routers learn from
  report,     ///< facts for the ledger
  reduction,  ///< sums, and the reduced gradient
  commit,     ///< seals, acknowledgements, commits
  heartbeat,  ///< signs of life: a run that exchanges nothing else makes no progress
  other,      ///< views and tables, checkpoints, learning, start and end
};
inline constexpr std::size_t kMessageClasses = 7;

/// Which part of the receiving peer handles it.
enum class Audience : std::uint8_t {
  leader,  ///< dropped by a peer that does not lead
  host,    ///< the replica host
  peer,    ///< the peer itself: who lives, who leads, the end
};

/// When it is heard. Each includes those before it.
enum class Hearing : std::uint8_t {
  of_its_term,     ///< an order: dropped if its sender does not lead any more
  in_its_view,     ///< waits for the sender's view; dropped if from an older history
  in_any_view,     ///< whatever the views and histories of both sides
  even_suspended,  ///< also by a peer that waits for an answer because it was stopped for long
};

/// How often it comes in a run.
enum class Frequency : std::uint8_t { by_microbatch, by_step, rare, never };

struct MessageTraits {
  std::string_view name;  ///< "ViewMessage"
  MessageClass message_class;
  Audience audience;
  Hearing hearing;
  Frequency frequency;
  bool after_deaths;  ///< comes soon after a death
};

const MessageTraits& traits_of(const MessageBody& body);

/// A row of the table.
template <HasFields Body>
struct MessageRow {
  MessageTraits traits;

  constexpr MessageRow(MessageClass message_class, Audience audience, Hearing hearing,
                       Frequency frequency, bool after_deaths = false)
      : traits{kTypeName<Body>, message_class, audience, hearing, frequency, after_deaths} {}
};

/// The rows, by the numbers of their messages.
template <class... Bodies>
struct MessageTable {
  static_assert(sizeof...(Bodies) == MessageKinds::kCount, "each message has a row");
  std::array<MessageTraits, MessageKinds::kEnd> rows{};

  constexpr explicit MessageTable(const MessageRow<Bodies>&... row) {
    ((rows[kNumberIn<MessageKinds, Bodies>] = row.traits), ...);
  }
  template <class Body>
  constexpr const MessageTraits& of() const {
    return rows[kNumberIn<MessageKinds, Body>];
  }
};

}  // namespace swarmpi
