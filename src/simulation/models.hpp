#pragma once
// The models that a virtual world is made of: what messages, jobs and writes take, and what
// computes.

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "core/cover.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/port_kinds.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

/// How a message is delivered.
struct Delivery {
  double delay_s = 0;  ///< of its first byte, once it leaves
  int copies = 1;      ///< 0: the message is lost; 2: it arrives twice
  double waits_s = 0;  ///< at its sender, before it leaves; with a sender that dies it is lost
};

/// How a death becomes known to one other peer. Times are in seconds after the death.
struct DeathPropagation {
  double messages_until_s = 0;  ///< until then messages of the dead peer still arrive, in order
  double loss_known_s = 0;      ///< when PeerLost is delivered; messages may still arrive after it
};

/// What messages take on the wire beside their payload: kinds, ids, lists.
constexpr std::int64_t kMessageBytes = 128;
inline std::int64_t wire_bytes(const Message& message) {
  return kMessageBytes + payload_bytes(message);
}

class LinkModel {
 public:
  virtual ~LinkModel() = default;
  /// The world keeps messages between two peers in order: one that would overtake another arrives
  /// with it; but for what overtakes().
  virtual Delivery deliver(PeerId from, PeerId to, const Message& message, double now_s) = 0;
  /// How long after it leaves, which is now, a message is there as a whole.
  virtual double takes_s(PeerId /*from*/, PeerId /*to*/, const Message&, const Delivery& delivery,
                         double /*now_s*/) {
    return delivery.delay_s;
  }
  /// Time from the order of one peer to kill another until the victim is dead.
  virtual double kill_delivery_s(PeerId, PeerId) { return 1e-3; }
  virtual DeathPropagation death_propagation(PeerId, PeerId) {
    return {std::numeric_limits<double>::infinity(), 0};
  }
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual double seconds(PeerId peer, const Job& job) = 0;
};

/// How long a write takes, and whether it succeeds.
struct WriteAnswer {
  double seconds = 0;
  Status status;
  bool outlives_writer = false;  ///< it is completed even if the writer dies meanwhile
};

class DiskModel {
 public:
  virtual ~DiskModel() = default;
  /// `action`: one of the storing actions. A peer's disk carries them out one after another, and
  /// none after an error.
  virtual WriteAnswer write(PeerId peer, const Action& action) = 0;
  /// Whether a part of the checkpoint whose manifest is to be written now is not to be found.
  virtual bool loses_part() { return false; }
  enum class Damage : std::uint8_t { none, cut_off, bit, misread };
  /// What happens now to the newest checkpoint, which is looked for.
  virtual Damage damages_newest() { return Damage::none; }
};

/// What becomes of the sums that the members of a collective enter.
struct CollectiveFate {
  enum class End : std::uint8_t {
    done,       ///< at all members
    hangs,      ///< for ever, at all
    fails,      ///< at one member, in the middle
    splits,     ///< done at all but one, which fails
    miscounts,  ///< done, over something else than what was entered, and its cover shows it
  };
  End end = End::done;
  double longest_s = 0;      ///< until a member's sums are read, or the others' end is heard of
  double deadline_s = 0;     ///< after which who waits for the others to enter fails; 0: never
  std::uint64_t victim = 0;  ///< which member, of `fails` and `splits`
};
class CollectiveModel {
 public:
  virtual ~CollectiveModel() = default;
  /// How long it takes to make an id, or to make the collective at one member once all have begun;
  /// none: it hangs for ever.
  virtual std::optional<double> making_s() = 0;
  /// Whether making it fails there instead.
  virtual bool fails_to_make() = 0;
  virtual CollectiveFate fate() = 0;
  /// How long something takes that takes `longest_s` at most.
  virtual double within_s(double longest_s) = 0;
  /// Whether an abort is followed by news as if there had been none: success, if what was aborted
  /// had been entered.
  virtual bool tells_after_abort() = 0;
};

/// The sums of a stage, and what they are over.
struct CollectiveSums {
  std::vector<std::uint64_t> sums;
  Cover cover;
};

/// Seam 3, compute, without time: the jobs of one peer. Errors mean that the protocol broke a rule,
/// or that state is lost: the world stops with them.
class VirtualCompute {
 public:
  virtual ~VirtualCompute() = default;
  virtual Result<JobResult> execute(const Job& job) = 0;
  /// Saves the stage's state. An error if it is not that after `step`.
  virtual Result<StageStored> save(Step step, StageId stage) = 0;
  /// Loads the stage, served so far or not, as it was saved after `state.step`. `ownership`: what
  /// this peer has of its moments from now on.
  virtual Status load(StageId stage, const ResumeState& state, const Ownership& ownership) = 0;
  /// Whether there is memory left for a stage that is to be learned or loaded.
  virtual bool has_room(StageId) { return true; }
  /// This peer's sums of a step, for a collective; empty where nothing is known of them.
  virtual CollectiveSums sums_for_collective(StageId, Step) { return {}; }
  /// The collective of the stage in this view has `out` of its own: this is in it now.
  virtual void set_out(StageId, const ViewNumber&, const CollectiveSums&) {}
  /// Flips a bit of the stage's state. False if the peer has no such stage, or this compute cannot
  /// flip bits.
  virtual bool flip(StageId) { return false; }
};

/// Makes the computes of a run's peers; they share what they save, so that a resumed run finds it.
class ComputeFactory {
 public:
  virtual ~ComputeFactory() = default;
  /// The compute of one peer. The plan and this factory outlive it.
  virtual std::unique_ptr<VirtualCompute> make(PeerId self, const RunPlan& plan,
                                               const InitialMembership& membership,
                                               const ResumeState& resume) = 0;
  /// Whether a fault of the memory was injected.
  virtual bool has_damaged() const { return false; }
};

}  // namespace swarmpi
