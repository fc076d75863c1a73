#pragma once
// The jobs of the peers and the microbatches on their way.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages/port_kinds.hpp"
#include "protocol/run_plan.hpp"
#include "simulation/work_count.hpp"

namespace swarmpi {

class WorkInProgress {
 public:
  /// The plan outlives it.
  explicit WorkInProgress(const RunPlan& plan) : plan_(plan) {}

  /// `has_stage`: the peer serves or learns the stage of the job, or did. `is_behind`: it has not
  /// heard that all have fallen back, so that what it does is void, and not counted.
  std::string starts(PeerId peer, const Job& job, bool has_stage, bool is_behind = false);
  void finished(PeerId peer, const JobResult& result);
  /// A leader issues a microbatch. Whether for the first time: else it is a repair.
  bool notes_issue(Incarnation incarnation, const MicrobatchId& microbatch);
  std::string issues(PeerId leader, Incarnation incarnation, const MicrobatchId& microbatch);
  /// A view was published, after which the leader plans all open work again.
  void planned() { count_.planned(); }
  /// Where jobs hang, open work is planned again at deadlines.
  void planned_at_a_deadline() { ++plans_at_deadlines_; }
  /// A peer died, or may be taken for dead. `committed`: the last committed step.
  void died(PeerId peer, bool led, Step committed);
  /// Peers that live are taken for dead: what they do is repeated, and counts for no death.
  void may_be_repeated() { may_be_repeated_ = true; }
  /// The run falls back to the state after this step.
  void restarted(Step step);

  /// Jobs that were started.
  std::int64_t jobs() const { return jobs_; }
  /// A peer was told to send a microbatch again.
  void resends() { ++repairs_; }
  /// Microbatches that were sent or issued again, each time.
  std::int64_t repairs() const { return repairs_; }
  /// Backward passes for which no activations were kept, in all stages but the last.
  std::int64_t recomputed() const { return recomputed_; }
  /// The deaths, in order.
  const std::vector<DeathCost>& deaths() const { return count_.deaths(); }
  /// At the end no death has cost more than it may.
  std::string too_much() const;

 private:
  const RunPlan& plan_;
  WorkCount count_;
  std::int64_t jobs_ = 0;
  std::int64_t recomputed_ = 0;
  std::int64_t repairs_ = 0;
  std::int64_t plans_at_deadlines_ = 0;
  bool may_be_repeated_ = false;
  std::set<PeerId> computing_;
  std::set<std::pair<Incarnation, MicrobatchId>> issued_;  // by any leader
  std::map<PeerId, std::set<MicrobatchId>> in_flight_;     // issued first by this leader, not done
};

}  // namespace swarmpi
