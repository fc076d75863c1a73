#pragma once
// Collectives in virtual time, which do the worst that NCCL does: they hang for ever, fail at one
// member and not at another, tell of success after an abort, and leave garbage behind.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "simulation/models.hpp"

namespace swarmpi {

class VirtualCollectives {
 public:
  using Id = std::pair<StageId, std::string>;
  /// Something that comes to pass in a collective, at one of its members.
  struct Tick {
    enum class What : std::uint8_t {
      made,      ///< it is made there
      unmade,    ///< making it fails
      read,      ///< the member's sums are read, and added
      told,      ///< the member hears how it ended
      deadline,  ///< it has waited for long enough
    };
    What what = What::made;
    Id id;
    std::uint64_t ticket = 0;  ///< of what was entered; of the last three
  };
  /// What comes to pass at a peer, unless it is dead by then.
  struct Coming {
    double at_s = 0;
    PeerId peer;
    std::variant<Event, Tick> what;
  };
  using All = std::vector<Coming>;
  using Computes = std::map<PeerId, VirtualCompute*>;

  /// The model outlives it. `microbatches`: of a step.
  VirtualCollectives(CollectiveModel& model, std::int64_t microbatches)
      : model_(model), microbatches_(microbatches) {}

  All asked(double now_s, PeerId peer, const MakeCollectiveId& action);
  All asked(double now_s, PeerId peer, const MakeCollective& action);
  /// Errors: it was not ready.
  Result<All> asked(double now_s, PeerId peer, VirtualCompute& compute,
                    const EnterCollective& action);
  All asked(double now_s, PeerId peer, VirtualCompute& compute, const AbortCollective& action);
  /// `computes`: of all peers that live.
  All comes(double now_s, PeerId peer, const Tick& tick, const Computes& computes);
  /// The peer is dead, and leaves all that it has entered.
  void died(PeerId peer);
  /// Whether what this peer has entered may read its sums of the stage.
  bool reads_sums(PeerId peer, StageId stage) const;

 private:
  enum class Stand : std::uint8_t { making, ready, entered, untold, over };
  struct Member {
    Stand stand = Stand::making;
    std::shared_ptr<const EnterCollective> entered = nullptr;  // last
  };
  struct Collective {
    ViewNumber view;
    std::int64_t size = 0;
    std::map<PeerId, Member> members;  // that have begun to make it
    std::uint64_t ticket = 0;          // of what is entered now; 0: nothing
    std::set<PeerId> have_entered, have_read;
    CollectiveFate fate;
    CollectiveSums sum;
    bool is_broken = false;  // a member is dead, or at its end: nothing is completed any more
  };

  /// The collective that the peer has made for this stage in this view; null if none.
  Collective* find(PeerId peer, StageId stage, const ViewNumber& view, Id* id = nullptr);
  PeerId victim(const Collective& collective) const;
  /// At this member, and so, sooner or later, for all.
  void end(Collective& collective, PeerId peer);
  All read(double now_s, PeerId peer, const Tick& tick, Collective& collective,
           const Computes& computes);

  CollectiveModel& model_;
  std::int64_t microbatches_;
  std::map<Id, Collective> all_;
  std::int64_t ids_ = 0;
};

}  // namespace swarmpi
