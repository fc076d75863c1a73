#pragma once
// What goes wrong in a run: peers are killed or stopped, and links are cut, at moments that are
// drawn from a seed, most of them aimed.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/run_plan.hpp"
#include "torture/fault_moment.hpp"

namespace swarmpi {

/// Something that goes wrong at one time.
struct Fault {
  enum class Kind : std::uint8_t {
    kill,    ///< the peers die
    stop,    ///< they do nothing for a while
    forget,  ///< likewise, and the others are told that they have died
    flip,    ///< a bit of their state flips, of a stage that others serve too
    notice,  ///< they are asked to leave
    cut,     ///< what is sent between one peer and the others arrives later, or never
  };
  enum class Side : std::uint8_t { before, after };
  enum class Whose : std::uint8_t { anybody, leader, given };
  enum class Victim : std::uint8_t { actor, other_side, leader, somebody, stage };

  Kind kind = Kind::kill;
  std::optional<NamedMoment> moment;  ///< none: any event
  Whose whose = Whose::anybody;       ///< whose moments count
  PeerId given;
  std::int64_t count = 1;         ///< at the how-manieth of these moments
  double not_before_s = 0;        ///< and not earlier
  Side side = Side::before;       ///< it is handled or carried out: then the victim never does
  bool from_last = false;         ///< count and time begin with the fault before this one
  Victim victim = Victim::actor;  ///< other_side: of a message; of all else, somebody
  StageId stage;                  ///< whose replicas are the victims
  std::int64_t more = 0;  ///< others to whom it happens at the same time; of a cut, at least
                          ///< one: they are the other ends
  double lasts_s = 0;     ///< but for a kill; infinite: for good
  bool reachable = true;  ///< somebody can kill a peer at the other end of the cut
  std::uint64_t lot = 0;  ///< draws those who are not named

  /// "kills the leader and 1 more, before peer 3 receives `seal` (time 2)".
  std::string text() const;
};

/// How often each kind came true, by its place in Fault::Kind; a peer each, and of cuts a link.
using FaultCounts = std::array<std::int64_t, 6>;

struct FaultSchedule {
  std::vector<Fault> all;
  /// A peer is not killed that a stage cannot do without, nor the last one.
  bool spares_a_replica = true;

  /// Whether peers may fall silent that live.
  bool has_silence() const;
  bool has(Fault::Kind kind) const;
  std::string text() const;
};

/// `silence`: peers are stopped and links are cut, too. `flips`: now and then a bit flips instead.
FaultSchedule draw_schedule(std::uint64_t seed, const RunPlan& plan,
                            const InitialMembership& membership, bool silence, bool flips);

}  // namespace swarmpi
