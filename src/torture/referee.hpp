#pragma once
// Watches a world, and reports the first thing that a peer does against the rules of the protocol,
// whatever its consequences. The rules stand in rules/, by what they are about: a method there that
// returns a text checks a rule; the text says which was broken, and how, and is empty if none was.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "protocol/run_plan.hpp"
#include "protocol/step/commit_record.hpp"
#include "simulation/world.hpp"
#include "torture/rules/collective_entries.hpp"
#include "torture/rules/commit_history.hpp"
#include "torture/rules/durability.hpp"
#include "torture/rules/hangs.hpp"
#include "torture/rules/known_views.hpp"
#include "torture/rules/memory_room.hpp"
#include "torture/rules/population.hpp"
#include "torture/rules/silences.hpp"
#include "torture/rules/stage_moves.hpp"
#include "torture/rules/stage_states.hpp"
#include "torture/rules/static_pipelines.hpp"
#include "torture/rules/work_in_progress.hpp"

namespace swarmpi {

class Referee final : public Observer {
 public:
  /// For one run, from its start or from the checkpoint that it resumes. Plan and disk outlive it.
  Referee(const RunPlan& plan, const InitialMembership& membership, const ResumeState& resume,
          const VirtualDisk& disk);

  /// A peer that was not there at the start will join.
  void expect_newcomer(PeerId peer) { population_.expect_newcomer(peer); }
  /// Work may take longer than a leader waits at first.
  void expect_slow_work() { silences_.expect_slow_work(); }
  /// Some do not hear the peer for this time.
  void expect_silence(PeerId peer, double from_s, double until_s) {
    silences_.expect(peer, from_s, until_s);
    population_.unheard(peer);
    hangs_.disturbed(until_s);
  }
  /// The peer does nothing until then.
  void expect_stop(PeerId peer, double from_s, double until_s) {
    expect_silence(peer, from_s, until_s);
    hangs_.stopped(peer, from_s, until_s);
  }
  /// The peer lives, and is taken for dead by some: it may be left out, and what it did is done
  /// again.
  void expect_false_death(PeerId peer) {
    taken_for_dead_.insert(peer);
    population_.ask_to_leave(peer);
    work_.may_be_repeated();
  }
  /// The peer's jobs, or its calls of the file system, hang until then.
  void expect_hang(PeerId peer, Task task, double until_s) { hangs_.expect(peer, task, until_s); }
  /// Peers that live, or have finished, and were in a view.
  std::vector<PeerId> members() const { return population_.members(); }
  /// Leaves it to the core to find replicas whose states differ.
  void ignore_state_differences() { states_.ignore_differences(); }

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;

  /// The first rule that was broken, and how; "" while there is none.
  const std::string& violation() const { return violation_; }
  /// The rules for the end of a run: "" or the first that was broken.
  std::string at_the_end(const VirtualWorld& world) const;
  /// The commits that were announced.
  const std::map<Step, CommitRef>& commits() const { return commits_.commits(); }
  /// The deaths, in order.
  const std::vector<DeathCost>& deaths() const { return work_.deaths(); }
  /// Whether all peers that served some stage at the start have died.
  bool stage_was_lost() const;
  /// Whether a member ended because it could not reach the others.
  bool somebody_was_cut_off() const { return population_.somebody_was_cut_off(); }
  std::int64_t jobs() const { return work_.jobs(); }
  std::int64_t recomputed() const { return work_.recomputed(); }
  /// Microbatches that were sent or issued again, each time.
  std::int64_t repairs() const { return work_.repairs(); }
  /// Newcomers that became members.
  std::int64_t joined() const { return population_.joined(); }
  /// How often a peer whose disk had hung could lead again.
  std::int64_t came_back() const { return hangs_.came_back(); }
  /// How many were given up because they could not load their stages.
  std::int64_t given_up_loading() const { return given_up_loading_; }
  /// Whether the run ended for too little memory, as it may.
  bool lacked_memory() const { return lacked_memory_; }
  /// Stages for which a peer had no memory left.
  std::int64_t refusals() const { return refusals_; }
  /// What came of collectives.
  const CollectiveCounts& collectives() const { return collectives_.counts(); }
  /// How the moves of Algorithm 2 ended.
  MoveCounts moves() const { return moves_.counts(); }

 private:
  /// What a part has found of a peer; "" is nothing.
  void report(PeerId peer, const std::string& broken);
  void refused(PeerId peer, StageId stage);
  void receives(PeerId peer, const ViewMessage& message);
  void sends(double now_s, PeerId peer, const Send& send);
  void starts(PeerId peer, const Job& job);
  void finishes(double now_s, PeerId peer, const Status& status);
  /// A live peer that was declared dead: what it does must be harmless.
  void asked_though_dead(PeerId peer, const Action& action);

  std::set<PeerId> living_members() const;
  std::string leftovers(const VirtualWorld& world) const;
  std::string unapplied_commits() const;

  const RunPlan& plan_;
  const VirtualDisk& disk_;
  Population population_;
  Silences silences_;
  Hangs hangs_;
  KnownViews views_;
  MemoryRoom room_;
  StageMoves moves_;
  StaticPipelines pipelines_;
  StageStates states_;
  CommitHistory commits_;
  Durability durability_;
  WorkInProgress work_;
  CollectiveEntries collectives_;
  bool storage_failed_ = false;  // of any peer
  std::int64_t given_up_loading_ = 0;
  bool lacked_memory_ = false;
  std::set<PeerId> taken_for_dead_;  // though they live
  std::int64_t refusals_ = 0;
  std::string violation_;
};

}  // namespace swarmpi
