#pragma once
// What goes wrong in a run: kills at moments that are drawn from a seed, most of them aimed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "simulator/fault_moment.hpp"
#include "swarm/plan.hpp"
#include "swarm/ranks.hpp"

namespace swarmpi {

/// One time at which peers are killed.
struct Kill {
  enum class Side : std::uint8_t { before, after };
  enum class Whose : std::uint8_t { anybody, leader, given };
  enum class Victim : std::uint8_t { actor, other_side, leader, somebody, stage };

  std::optional<NamedMoment> moment;  ///< none: any event
  Whose whose = Whose::anybody;       ///< whose moments count
  PeerId given;
  std::int64_t count = 1;         ///< at the how-manieth of these moments
  double not_before_s = 0;        ///< and not earlier
  Side side = Side::before;       ///< it is handled or carried out: then the victim never does
  bool from_last_death = false;   ///< count and time begin with the kill before this one
  Victim victim = Victim::actor;  ///< other_side: of a message; of all else, somebody
  StageId stage;                  ///< whose replicas are the victims
  std::int64_t more = 0;          ///< others who die at the same time
  std::uint64_t lot = 0;          ///< draws those who are not named

  /// "the leader and 1 more, before peer 3 receives `seal` (time 2)".
  std::string text() const;
};

struct FaultSchedule {
  std::vector<Kill> kills;
  /// A peer does not die that a stage cannot do without, nor the last one.
  bool spares_a_replica = true;

  std::string text() const;
};

FaultSchedule draw_schedule(std::uint64_t seed, const RunPlan& plan, const Roster& roster);

}  // namespace swarmpi
