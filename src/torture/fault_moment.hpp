#pragma once
// Moments in a run at which something may go wrong: everything that a peer hears of or asks for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/messages/ports.hpp"

namespace swarmpi {

/// Whether it is an Event or an Action, which one of these, and of messages and jobs which one of
/// those.
struct MomentKind {
  enum class Of : std::uint8_t { event, action };
  Of of = Of::event;
  std::size_t kind = 0;  ///< place in Event or Action
  std::size_t part = 0;  ///< place in MessageBody, Job or JobResult

  bool operator==(const MomentKind&) const = default;
};

MomentKind kind_of(const Event& event);
MomentKind kind_of(const Action& action);

/// How many moments of a kind a run has.
enum class HowOften : std::uint8_t { by_microbatch, by_step, rare, never };

struct NamedMoment {
  MomentKind kind;
  std::string name;  ///< "receives `seal`"
  HowOften how_often;
  bool of_recovery;  ///< comes soon after a death
};
/// All kinds that there are: those of messages, of jobs, and of storage and the rest.
const std::vector<NamedMoment>& message_moments();
const std::vector<NamedMoment>& job_moments();
const std::vector<NamedMoment>& other_moments();

/// All of these, one after another.
const std::vector<NamedMoment>& all_moments();
inline constexpr std::size_t kMostMoments = 160;
/// How often something went wrong at each, by its place in all_moments().
using MomentCounts = std::array<std::int64_t, kMostMoments>;
/// REQUIRES: it is one of them.
std::size_t place_of(const MomentKind& kind);

}  // namespace swarmpi
