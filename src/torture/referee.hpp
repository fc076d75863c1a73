#pragma once
// Watches a world, and reports the first thing that a peer does against the rules of the protocol,
// whatever its consequences.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/run_plan.hpp"
#include "simulation/work_count.hpp"
#include "simulation/world.hpp"

namespace swarmpi {

class Referee final : public Observer {
 public:
  /// For one run, from its start or from the checkpoint that it resumes. Plan and disk outlive it.
  Referee(const RunPlan& plan, const InitialMembership& membership, const ResumeState& resume,
          const VirtualDisk& disk);

  /// A peer that was not there at the start will join.
  void expect_newcomer(PeerId peer);
  /// The peer is stopped for this time, or one of its links is cut.
  void expect_silence(PeerId peer, double from_s, double until_s) {
    silences_[peer].push_back({from_s, until_s});
  }
  /// Peers that live, or have finished, and were in a view.
  std::vector<PeerId> members() const;
  /// Leaves it to the core to find replicas whose states differ.
  void ignore_state_differences() { ignores_state_differences_ = true; }

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;

  /// The first rule that was broken, and how; "" while there is none.
  const std::string& violation() const { return violation_; }
  /// The rules for the end of a run: "" or the first that was broken.
  std::string at_the_end(const VirtualWorld& world) const;
  /// The commits that were announced.
  const std::map<Step, CommitRef>& commits() const { return commits_; }
  /// The deaths, in order.
  const std::vector<DeathCost>& deaths() const { return work_.deaths(); }
  /// Whether all peers that served some stage at the start have died.
  bool stage_was_lost() const;
  /// Whether a member ended because it could not reach the others.
  bool somebody_was_cut_off() const;
  std::int64_t jobs() const { return jobs_; }
  /// Newcomers that became members.
  std::int64_t joined() const { return joined_; }

 private:
  using Held = std::pair<PeerId, StageId>;
  using PeerPair = std::pair<PeerId, PeerId>;

  /// Whether the peer has been silent for long, until just now, or has ended.
  bool is_suspect(double now_s, PeerId peer) const;
  /// Whether a peer was silent so recently that others may still be waiting because of it.
  bool somebody_was_silent(double now_s) const;
  void finished(PeerId peer, const JobResult& result);
  void applied(PeerId peer, const ApplyResult& result);
  void adopt_view(PeerId peer, const ViewMessage& message);
  void fall_back(PeerId peer, const ViewMessage& message);
  /// A peer that was asked to leave has left.
  void leave(PeerId peer);
  void admit(PeerId peer, const Action& action);
  void knows_commit(PeerId peer, Step step);
  void started(PeerId peer, const Job& job);
  void stores(PeerId peer, const StoreStage& store);
  void sends(PeerId peer, const Send& send);
  void announces(PeerId peer, const CommitMessage& commit);
  /// Whether a peer ended because no run answered: a newcomer, or one that only the dead leader
  /// knew.
  static bool found_no_run(const Status& status);
  /// Whether a peer ended because it could not be killed, or could not have others killed. What
  /// such peers believe is not checked.
  static bool cut_off(const Status& status);
  static bool lost_its_disk(const Status& status);
  /// Whether the view of a peer that goes on has this one.
  bool known_to_others(PeerId peer) const;
  void finishes(PeerId peer, const Status& status);
  void check_declared_dead(double now_s, PeerId peer, const Action& action);
  void read_journal();
  void require(bool kept, const char* what, PeerId peer, const std::string& about);

  bool dead(PeerId peer) const { return !living_.contains(peer); }
  /// The last commit that a live peer has announced or applied.
  Step last_commit() const;
  std::string statuses() const;
  std::string undelivered_views() const;
  std::string unapplied_commits() const;
  std::string too_much_work() const;
  std::string leftovers(const VirtualWorld& world) const;

  const RunPlan& plan_;
  const VirtualDisk& disk_;
  ViewRef first_view_;               // at the start
  std::map<PeerId, ViewRef> views_;  // the newest that each has received or made
  std::set<Held> has_stage_;         // serves or learns the stage, or did
  bool storage_failed_ = false;      // of any peer
  std::set<PeerId> outsiders_;       // not members: in no view yet, or no longer part of the run
  std::set<PeerId> living_;          // finished ones included
  std::map<PeerId, Incarnation> incarnations_;
  Incarnation resumed_in_, incarnation_;
  std::shared_ptr<const RestartPoint> fallback_;
  Step resumed_from_;

  WorkCount work_;
  std::set<PeerId> computing_;
  std::set<Held> applying_;                                 // an update runs
  std::set<Held> storing_;                                  // the state is being written
  std::map<Held, Step> loading_;                            // the state of this step
  std::map<PeerId, Step> history_start_;                    // the step that it fell back to
  std::map<Held, Step> applied_;                            // last step in the state
  std::set<std::pair<Incarnation, MicrobatchId>> issued_;   // by any leader
  std::map<PeerId, std::set<MicrobatchId>> in_flight_;      // issued first by this leader, not done
  std::map<std::pair<Step, StageId>, ApplyResult> states_;  // of the first replica
  std::map<Term, PeerId> leaders_;
  std::map<PeerPair, ViewNumber> views_sent_;  // the newest
  ViewRef newest_ = no_view();                 // that was published
  std::map<Step, CommitRef> commits_;
  std::map<PeerId, Step> commit_known_;  // the last that this peer has announced or begun to apply
  std::map<PeerId, Status> ended_;
  std::map<PeerId, std::int64_t>
      rows_asked_;  // rows of steps and validation that it asked to write
  std::map<PeerId, std::int64_t> rows_written_by_;
  std::size_t journal_read_ = 0;
  std::set<std::int64_t> rows_written_;
  std::int64_t jobs_ = 0;
  std::int64_t joined_ = 0;
  bool leaving_ = false;  // the leader has sent ExitMessage
  std::set<PeerId> may_leave_;
  std::set<PeerId> unreachable_;  // for another peer
  bool ignores_state_differences_ = false;
  struct Silence {
    double from_s, until_s;
  };
  std::map<PeerId, std::vector<Silence>> silences_;  // stops and cut links
  std::string violation_;
};

}  // namespace swarmpi
