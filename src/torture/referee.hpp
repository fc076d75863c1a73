#pragma once
// Watches a world and says when a peer does what the protocol forbids, whatever comes of it.

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
  /// Knows of one run from its start, or from the checkpoint it goes on from.
  Referee(const RunPlan& plan, const InitialMembership& membership, const ResumeState& resume,
          const VirtualDisk& disk);

  /// One who was not there at the start.
  void comes(PeerId peer);
  /// Those who live, or have finished, and were in some view.
  std::vector<PeerId> members() const;
  /// Leaves it to the core to find replicas that differ.
  void overlook_states() { overlooks_states_ = true; }

  void happened(double now_s, PeerId peer, const Event& event) override;
  void asked(double now_s, PeerId peer, const Action& action) override;
  void died(double now_s, PeerId peer) override;
  void falls_silent(double from_s, double until_s, PeerId peer) override {
    silences_[peer].push_back({from_s, until_s});
  }

  /// The first breach of a rule; "" while there is none.
  const std::string& breach() const { return breach_; }
  /// What must hold once everybody is done: "" or what is wrong.
  std::string at_the_end(const VirtualWorld& world) const;
  /// The commits that were announced.
  const std::map<Step, CommitRef>& commits() const { return commits_; }
  /// Those who died, in this order.
  const std::vector<DeathCost>& deaths() const { return work_.deaths(); }
  /// Whether all who served some stage at the start have died.
  bool stage_was_lost() const;
  /// Whether somebody ended because nobody could be reached.
  bool somebody_was_cut_off() const;
  std::int64_t jobs() const { return jobs_; }
  /// Who came later and was let in.
  std::int64_t joined() const { return joined_; }

 private:
  using Held = std::pair<PeerId, StageId>;
  using Way = std::pair<PeerId, PeerId>;

  /// Whether it has been silent for long, until just now.
  bool is_suspect(double now_s, PeerId peer) const;
  /// Whether somebody has been silent so lately that others may still wait for its sake.
  bool somebody_was_silent(double now_s) const;
  void finished(PeerId peer, const JobResult& result);
  void applied(PeerId peer, const ApplyResult& result);
  void adopts(PeerId peer, const ViewMessage& message);
  void goes_back(PeerId peer, const ViewMessage& message);
  /// One who wanted to go, and was let go.
  void leaves(PeerId peer);
  void lets_in(PeerId peer, const Action& action);
  void knows_commit(PeerId peer, Step step);
  void started(PeerId peer, const Job& job);
  void stores(PeerId peer, const StoreStage& store);
  void sends(PeerId peer, const Send& send);
  void announces(PeerId peer, const CommitMessage& commit);
  /// A newcomer, or one that hardly anybody had heard of when the leader died.
  static bool found_nobody(const Status& status);
  /// One that could not be killed, or could not have others killed: who knows what they think.
  static bool cut_off(const Status& status);
  static bool lost_its_disk(const Status& status);
  /// Somebody who goes on counts on it.
  bool known_to_others(PeerId peer) const;
  void finishes(PeerId peer, const Status& status);
  void forgotten(double now_s, PeerId peer, const Action& action);
  void read_journal();
  void rule(bool kept, const char* what, PeerId peer, const std::string& about);

  bool dead(PeerId peer) const { return !living_.contains(peer); }
  /// The last commit that somebody alive has acted on.
  Step last_commit() const;
  std::string statuses() const;
  std::string unheard_views() const;
  std::string unapplied() const;
  std::string too_much_work() const;
  std::string left_overs(const VirtualWorld& world) const;

  const RunPlan& plan_;
  const VirtualDisk& disk_;
  View dealt_;                    // at the start
  std::map<PeerId, View> views_;  // the newest that each has heard or made
  std::set<Held> has_stage_;      // serves or learns it, or did
  bool storage_failed_ = false;   // somebody's
  std::set<PeerId> outsiders_;    // who count for nothing: in no view yet, or alone
  std::set<PeerId> living_;       // those who have finished among them
  std::map<PeerId, Incarnation> incarnations_;
  Incarnation resumed_in_, incarnation_;
  std::shared_ptr<const RestartPoint> went_back_to_;
  Step resumed_from_;

  WorkCount work_;
  std::set<PeerId> computing_;
  std::set<Held> applying_;                                 // an update runs
  std::set<Held> storing_;                                  // the state is being written
  std::map<Held, Step> loading_;                            // the state of this step
  std::map<PeerId, Step> begins_at_;                        // where its history does
  std::map<Held, Step> applied_;                            // last step in the state
  std::set<std::pair<Incarnation, MicrobatchId>> issued_;   // by whomever
  std::map<PeerId, std::set<MicrobatchId>> in_flight_;      // issued first by this one, not through
  std::map<std::pair<Step, StageId>, ApplyResult> states_;  // of the first replica
  std::map<Term, PeerId> leaders_;
  std::map<Way, ViewNumber> views_sent_;  // the newest
  View newest_;                           // that was published
  std::map<Step, CommitRef> commits_;
  std::map<PeerId, Step> commit_known_;  // the last that this peer has announced or begun to apply
  std::map<PeerId, Status> ended_;
  std::map<PeerId, std::int64_t> rows_asked_;  // to be written, of steps and validation
  std::map<PeerId, std::int64_t> rows_written_by_;
  std::size_t journal_read_ = 0;
  std::set<std::int64_t> rows_written_;
  std::int64_t jobs_ = 0;
  std::int64_t joined_ = 0;
  bool leaving_ = false;  // some may have left already
  std::set<PeerId> may_leave_;
  std::set<PeerId> unreachable_;  // for somebody
  bool overlooks_states_ = false;
  struct Silence {
    double from_s, until_s;
  };
  std::map<PeerId, std::vector<Silence>> silences_;  // stopped, or with a link that is cut
  std::string breach_;
};

}  // namespace swarmpi
