#pragma once
// Adaptive rebalancing: peers move from the stage that waits for work to the one where work waits.
// Algorithm 2 of Ryabinin et al., "SWARM Parallelism", ICML 2023, arXiv 2301.11913. In our words:
//
//   (1) Every T seconds each peer publishes how much work waits at it.
//   (2) The load of a stage is the sum over its peers (or their mean: the deck says which).
//   (3) s_min is the stage with the least load, s_max the one with the most.
//   (4) The peer of s_min at which the least waits leaves it,
//   (5) downloads the state of s_max, and serves that.
//
// (4) and (5) are done so, one after the other, only where the peer has no room for both stages.
//
// Where we differ: the load is an average since the last decision, not what waits at the moment;
// one move is under way at a time; s_min is chosen among the stages that can give a peer, for one
// that stays must be left; and in (5) the peer serves its old stage while it learns the new one, if
// it has room for both.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/membership/departures.hpp"
#include "protocol/membership/learners.hpp"
#include "protocol/rebalancing/loads.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

/// Load of each stage of which one is known (2).
std::map<StageId, double> loads_of_stages(const StageLoads& loads, RebalanceLoad how);

/// The peers of a stage that may move: they stay in it, serve and learn nothing else, and leave a
/// peer that stays behind. By id.
std::vector<PeerId> movable_peers(const View& view, const Departures& departures, StageId stage);

/// The move that Algorithm 2 makes. None where loads are equal, or no stage can give a peer. Only
/// peers that `may_learn` the stage are moved. REQUIRES: a load is known of some peer of each
/// stage.
std::optional<StageMove> choose_move(const View& view, const Departures& departures,
                                     const std::function<bool(PeerId, StageId)>& may_learn,
                                     const StageLoads& loads, RebalanceLoad how);

class Rebalancing {
 public:
  /// `plan` outlives it.
  Rebalancing(const RunPlan& plan, double now_s)
      : plan_(plan),
        loads_(plan.swarm.rebalance_period_s),
        next_decision_s_(now_s + plan.swarm.rebalance_period_s) {}

  /// A peer reports what waits at it (1).
  void enter(const LoadFact& fact, PeerId from, double now_s) { loads_.enter(fact, from, now_s); }
  /// Time passes; where steps are open, it is time that loads are averaged over.
  void pass(double now_s, bool steps_open) { loads_.pass(now_s, steps_open); }
  /// A new view after this commit: loads are counted anew.
  void count_in(ViewNumber view, Step committed, double now_s);
  /// Of each stage, as counted when the last decision was made; none before.
  const std::map<StageId, double>& stage_loads() const { return stage_loads_; }
  /// All goes on from a checkpoint: nothing is known of the loads.
  void leave_history() { stage_loads_.clear(); }

  /// Once a period, as soon as a whole step was done in this view and all have reported about it:
  /// the move to be begun, if any.
  std::optional<StageMove> decide(const View& view, const Departures& departures,
                                  const Learners& learners, Step committed, double now_s);

  struct Progress {
    bool view_changed = false;
    std::string ended;  ///< how; "" while the move goes on
  };
  /// Begins the move: the peer learns its new stage, or, where it has no room for both, leaves its
  /// old one first. Whether it learns at once.
  static bool begin(View& view, const StageMove& move, const MemoryNeeds& needs);
  /// Takes the move of the view a step further. REQUIRES: there is one.
  static Progress advance(View& view, Departures& departures, const MemoryNeeds& needs = {});

 private:
  /// Whether each peer that stays in a stage has reported about it, and lately one of each stage.
  bool all_known(const View& view, const StageLoads& loads) const;

  const RunPlan& plan_;
  Loads loads_;
  Step counted_from_{-1};  // the last commit before the view in which loads are counted
  std::map<StageId, double> stage_loads_;
  double next_decision_s_;
};

}  // namespace swarmpi
