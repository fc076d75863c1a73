#pragma once
// The moments of a run at which a fault may happen: all events and actions of the core.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/ports.hpp"

namespace swarmpi {

/// An alternative of Event or Action, and of messages and jobs also which message or job.
struct MomentKind {
  enum class Of : std::uint8_t { event, action };
  Of of = Of::event;
  std::size_t kind = 0;  ///< index in Event or Action
  std::size_t part = 0;  ///< index in MessageBody, Job or JobResult

  bool operator==(const MomentKind&) const = default;
};

MomentKind kind_of(const Event& event);
MomentKind kind_of(const Action& action);

/// How often a moment comes in a run.
enum class HowOften : std::uint8_t { by_microbatch, by_step, rare, never };

struct NamedMoment {
  MomentKind kind;
  std::string name;  ///< "receives `seal`"
  HowOften how_often;
  bool of_recovery;  ///< comes soon after a death
};
/// The moments of messages, of jobs, and of storage and all else.
const std::vector<NamedMoment>& message_moments();
const std::vector<NamedMoment>& job_moments();
const std::vector<NamedMoment>& other_moments();

/// All of these, in this order.
const std::vector<NamedMoment>& all_moments();
inline constexpr std::size_t kMostMoments = 160;
/// How many faults happened at each moment, by its index in all_moments().
using MomentCounts = std::array<std::int64_t, kMostMoments>;
/// Index in all_moments(). REQUIRES: the moment is one of them.
std::size_t moment_index(const MomentKind& kind);

}  // namespace swarmpi
