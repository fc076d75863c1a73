#pragma once
// Who serves what, as its leader changes it while the run goes on: spares and newcomers learn and
// are promoted, peers leave in good order, and move between stages. Each change is made in the
// leader's view, which the leader publishes then: a table round follows before the next.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/leader/leader_record.hpp"
#include "protocol/leader/run_history.hpp"
#include "protocol/membership/departures.hpp"
#include "protocol/membership/learners.hpp"
#include "protocol/membership/newcomers.hpp"
#include "protocol/membership/stage_needs.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/method/room_layout.hpp"
#include "protocol/rebalancing/moves.hpp"
#include "protocol/rebalancing/rebalancing.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class FailureDetector;

class Roles {
 public:
  /// As it was at the start of the run.
  struct Start {
    std::int64_t workers = 1;    ///< how many peers serve, as long as there are as many
    std::int64_t peers = 1;      ///< spares included
    PeerId highest_id_at_start;  ///< peers with higher ids have joined later
  };

  /// All but `start` outlive this, and are the leader's.
  Roles(PeerId self, const RunPlan& plan, const Start& start, View& view, RunHistory& history,
        LeaderRecord& record, Outbox& outbox, const double& now_s);

  // ---- What peers report
  void enter(const UseFact& fact) { times_.enter(fact); }
  void enter(const LoadFact& fact, PeerId from) { rebalancing_.enter(fact, from, now_s_); }
  /// What the peer has learned counts from now on, if it learns that stage.
  void enter(const LearnedMessage& message, PeerId from);
  /// Of what the peer has learned, only what its table lists counts.
  void keep_listed(PeerId peer, const std::vector<LearnedMessage>& listed) {
    learners_.keep_listed(peer, listed);
  }
  /// Time passes.
  void pass() { rebalancing_.pass(now_s_, !history_.steps.empty()); }

  // ---- Who comes
  /// Has one process spawned where one is missing.
  void spawn_newcomer();
  void spawned(const PeerSpawned& spawned);
  void spawn_failed(const SpawnFailed& failed);
  void joined(PeerId peer) { newcomers_.joined(peer); }
  /// The peer is dead.
  void lost(PeerId peer);

  // ---- Who learns
  // Each of these says whether the view has changed.
  /// Learners that hold the agreed state begin to serve, where they are wanted; those that hold
  /// another state are dropped.
  bool promote_learned();
  /// The learner serves the stage, from the next view on.
  void promote(PeerId peer, StageId stage);
  /// Drops the learners for which a commit has waited as long as the step took, and
  /// learner_patience_s at least.
  bool drop_slow_learners();
  void drop_learner(PeerId peer, StageId stage, const std::string& why);
  /// Lets spares and newcomers learn the neediest stages, until enough peers serve or learn.
  bool assign_learners();

  // ---- Who leaves
  void notice(PeerId peer, const std::string& why) { departures_.notice(peer, why, now_s_); }
  /// Why all were asked to leave, if all were; those whom nobody can kill count as asked.
  std::optional<std::string> asked_of_all(const std::set<PeerId>& unkillable) const {
    return departures_.asked_of_all(view_, unkillable);
  }
  /// Notices to fewer than all make peers leave.
  void begin_departures(const FailureDetector& failure_detector);
  /// Whether it has departed in good order: a JoinMessage of it may still be under way.
  bool was_released(PeerId peer) const { return departures_.was_released(peer); }
  /// Whether a peer that departs serves in a static pipeline, and somebody stays to take its place.
  bool leaves_a_pipeline() const;
  /// Takes the peers that leave a step further: a successor learns their stages, they drain, they
  /// are released. Whether the view has changed.
  bool process_departures();
  /// Whether the leader itself was asked to leave, and nothing of it is needed any more.
  bool leader_has_left() const { return leader_has_left_; }

  // ---- Who moves
  /// Makes the moves of the plan that are due. Whether the view has changed.
  bool move_peers();
  /// Algorithm 2: a peer of the stage with the least load moves to the one with the most. Whether
  /// one begins to, which changes the view.
  bool rebalance();

  // ---- The view
  /// It is about to be published: where all replicas of a stage leave it, they stay; the move that
  /// is under way goes on, or ends.
  void settle();
  /// It is published as this one: loads are counted anew.
  void count_in(ViewNumber view) { rebalancing_.count_in(view, history_.committed(), now_s_); }
  /// To whom stages can be dealt when all go back: those that depart serve only if nobody else can.
  Hands hands() const;
  /// All have gone back to a checkpoint.
  void leave_history();
  /// Whether counts are what a look at all members gives. For torture.
  bool counts_hold() const { return learners_.counts_hold(view_); }

 private:
  /// Takes the move that is under way a step further. Whether the view has changed.
  bool advance_move();

  PeerId self_;
  const RunPlan& plan_;
  View& view_;
  RunHistory& history_;
  LeaderRecord& record_;
  Outbox& outbox_;
  const double& now_s_;

  Learners learners_;
  Departures departures_;
  Moves moves_;
  Rebalancing rebalancing_;
  MeasuredTimes times_;
  Newcomers newcomers_;
  bool leader_has_left_ = false;
};

}  // namespace swarmpi
