#pragma once
// The faults of a run, drawn from a seed: peers are killed or stopped, and links are cut, most of
// them at a chosen moment of the protocol.

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

/// One fault.
struct Fault {
  enum class Kind : std::uint8_t {
    kill,          ///< the victims die
    stop,          ///< they do nothing for a while
    declare_dead,  ///< likewise, and the other peers are told that they have died
    flip,          ///< a bit of their state flips, in a stage that other peers serve too
    notice,        ///< they are asked to leave
    cut,           ///< messages between the first victim and the others arrive later, or never
    hang_jobs,     ///< their jobs do not end for a while, though they handle events
    hang_disk,     ///< likewise their calls of the file system do not return
    hang_loop,     ///< they do nothing for a while, but what they have sent arrives bit by bit
    cut_one_way,   ///< as `cut`, but messages one way only
    lose_link,     ///< as `cut`, for good, and both ends are told that the other has died; neither
                   ///< of them leads
    outbid,        ///< a later term appears in the journal, which no peer has created; no victims
  };
  /// Before or after the event is handled, or the action carried out.
  enum class Side : std::uint8_t { before, after };
  enum class Actor : std::uint8_t { any, leader, given };
  enum class Victim : std::uint8_t { actor, other_endpoint, leader, drawn, stage };

  Kind kind = Kind::kill;
  std::optional<NamedMoment> moment;  ///< none: any event
  Actor actor = Actor::any;           ///< the peer whose moments are counted
  PeerId given_actor;
  std::int64_t count = 1;         ///< the fault happens at the count-th of these moments
  double not_before_s = 0;        ///< and not earlier
  Side side = Side::before;       ///< before: a victim that dies never handles or sends it
  bool since_last_fault = false;  ///< count and time begin when the fault before this one happens
  Victim victim = Victim::actor;  ///< other_endpoint: of a message; of other moments a drawn peer
  StageId stage;                  ///< with Victim::stage: its replicas are the victims
  std::int64_t more = 0;  ///< further victims, drawn; of a cut the peers that the first is cut from
  bool inward = false;    ///< of a cut one way: the first victim does not hear the others; else
                          ///< they do not hear it
  double duration_s = 0;  ///< of all kinds but kill, flip and notice; infinite: for good
  bool reachable = true;  ///< whether peers on both sides of a cut can still have each other
                          ///< killed, or a peer that is stopped be killed
  std::uint64_t victim_seed = 0;  ///< draws the victims that are not named

  /// "kills the leader and 1 more, before peer 3 receives `seal` (time 2)".
  std::string text() const;
};

/// How often each kind was injected, by Fault::Kind: victims, and of cuts links.
using FaultCounts = std::array<std::int64_t, 12>;

struct FaultSchedule {
  std::vector<Fault> all;
  /// The last replica of a stage and the last peer of the swarm are not killed.
  bool spares_a_replica = true;

  /// Whether a live peer may fall silent.
  bool has_silence() const;
  bool has(Fault::Kind kind) const;
  /// Whether jobs or disks of a live peer may hang.
  bool has_hangs() const { return has(Fault::Kind::hang_jobs) || has(Fault::Kind::hang_disk); }
  std::string text() const;
};

/// Adds deaths at drawn times, beside what the schedule has: most leave something to repair.
void add_deaths(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                const InitialMembership& membership);
/// Adds a hang of jobs or of disks, at some of the peers, beside what the schedule has.
void add_hang(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
              const InitialMembership& membership);
/// Adds faults at moments of collectives, beside what the schedule has.
void add_faults_of_collectives(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                               const InitialMembership& membership);
/// Adds terms that no peer has created, beside what the schedule has: fewer than would make a peer
/// give up.
void add_outbids(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                 const InitialMembership& membership);
/// Has a stage die instead of what the schedule has, and disks hang as all go back to a checkpoint.
void add_hang_in_loading(FaultSchedule& schedule, std::uint64_t seed, const RunPlan& plan,
                         const InitialMembership& membership);
/// `silence`: peers are stopped and links are cut, too. `flips`: in some schedules a bit flips, and
/// nothing else happens. `more`: faults beside those that are drawn.
FaultSchedule draw_schedule(std::uint64_t seed, const RunPlan& plan,
                            const InitialMembership& membership, bool silence, bool flips,
                            std::size_t more = 0);

}  // namespace swarmpi
