#pragma once
// The moments of a run at which a fault may happen: all events and actions of the core.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "protocol/messages/message_traits.hpp"
#include "protocol/messages/port_kinds.hpp"

namespace swarmpi {

/// A kind of Event or Action, and of messages and jobs also which message or job.
struct MomentKind {
  enum class Of : std::uint8_t { event, action };
  Of of = Of::event;
  std::size_t kind = 0;  ///< number in EventKinds or ActionKinds
  std::size_t part = 0;  ///< number in MessageKinds, JobKinds or JobResultKinds

  bool operator==(const MomentKind&) const = default;
};

MomentKind kind_of(const Event& event);
MomentKind kind_of(const Action& action);

struct NamedMoment {
  MomentKind kind;
  std::string name;  ///< "receives SealMessage"
  Frequency frequency;
  bool after_deaths;  ///< comes soon after a death
};
/// The moments of messages (by kMessageTable), of jobs, and of storage and all else.
const std::vector<NamedMoment>& message_moments();
const std::vector<NamedMoment>& job_moments();
const std::vector<NamedMoment>& other_moments();
inline constexpr std::size_t kOtherMoments = 20;
inline constexpr std::size_t kOnlyOfCollectives = 8;
/// Those of collectives: of their messages, which are among the first, and of all else.
std::vector<NamedMoment> collective_moments();

/// All of these, in this order.
const std::vector<NamedMoment>& all_moments();
/// How many faults happened at each moment, by its index in all_moments().
using MomentCounts = std::array<std::int64_t, 2 * MessageKinds::kCount + 2 * JobKinds::kCount +
                                                  kOtherMoments + kOnlyOfCollectives>;
/// Index in all_moments(). REQUIRES: the moment is one of them.
std::size_t moment_index(const MomentKind& kind);

}  // namespace swarmpi
