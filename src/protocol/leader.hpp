#pragma once
// A peer as leader: it issues microbatches (the source), keeps the ledger, seals complete steps,
// commits what all replicas have reduced, stores the rows of steps on whose state all replicas
// agree, asks for checkpoints, repairs what deaths have broken, decides who serves what, and ends
// the run. docs/protocol.md describes the protocol; the sections here follow it.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protocol/leader/checkpoints.hpp"
#include "protocol/leader/leader_record.hpp"
#include "protocol/leader/roles.hpp"
#include "protocol/leader/run_history.hpp"
#include "protocol/membership/failure_detector.hpp"
#include "protocol/membership/late_work.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/repair/step_repair.hpp"
#include "protocol/repair/table_round.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"
#include "protocol/step/run_ending.hpp"

namespace swarmpi {

/// So many steps in a row that are skipped for infinite, NaN or overflowing gradients end the run:
/// the training has diverged.
inline constexpr std::int64_t kSkipsThatEndTheRun = 3;

/// How a peer comes to lead.
struct Succession {
  Term term;
  Term run;                       ///< the first term of this run
  View view;                      ///< of the live peers; the leader sets its number
  bool takes_over = false;        ///< from a leader that has died or abstains
  double leaderless_since_s = 0;  ///< when the death of the leader before was heard
  double run_time_ahead_s = 0;    ///< of this peer's clock, at least
  Roles::Start at_start;
  /// The leader before left in good order, and nobody who is gone served a stage: it knew of
  /// nothing that is to be repaired.
  bool nothing_was_lost = false;
  std::shared_ptr<const RestartPoint>
      restart;  ///< where the incarnation began, if not at the start
  /// The last peer that gave itself up, and when that was heard.
  std::optional<std::pair<PeerId, double>> gave_itself_up;
};

/// Why a peer is not in the view any more: it died, or it announced its departure.
enum class DepartureKind : std::uint8_t { lost, left };

class Leader {
 public:
  /// How a peer has gone.
  struct Gone {
    DepartureKind how = DepartureKind::lost;
    std::optional<Suspicion> suspicion;  ///< where this peer has had it killed
    std::string obituary;                ///< what it has said of it, if it gave itself up
  };

  /// `now_s`: the time of the event under way, which the leader's peer owns. `failure_detector`:
  /// of that peer.
  Leader(PeerId self, const RunPlan& plan, const CommitLog& commit_log, Succession succession,
         const Outbox& outbox, const FailureDetector& failure_detector, const double& now_s);
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  /// Publishes the first view of this term. `gone`: peers of the newest view that are not in it.
  void begin(const std::map<PeerId, Gone>& gone);
  /// One round of decisions from all that is known: commit, store, seal, open, issue, end; then
  /// who learns, moves, leaves and joins. To be called after each event.
  void lead();
  const View& view() const { return view_; }
  /// What the run waits for, for messages about stalls.
  std::string waiting_for() const;

  // What peers report about the open steps.
  void receive(const ForwardDone& message, PeerId from);
  void receive(const ReportMessage& message, PeerId from);
  void receive(const SealRefused& message, PeerId from);
  void receive(const ReducedMessage& message, PeerId from);
  void receive(const ChunkRefused& message, PeerId from);
  void receive(const CollectiveWord& message, PeerId from);

  // Rows and checkpoints.
  void receive(const RecordDurable& record);
  void receive(const StageStoredMessage& message, PeerId from);
  void receive(const CheckpointDurable& checkpoint);
  void receive(const CheckpointDropped& checkpoint);
  void receive(const CheckpointDamaged& checkpoint);

  // Work that hangs.
  void receive(const LateMessage& message, PeerId from);
  void receive(const TriedMessage& message, PeerId from);
  void receive(const AbleMessage& message, PeerId from);
  /// The peer has said so; its death follows.
  void gave_itself_up(PeerId peer) { late_.gave_itself_up(peer, now_s_); }
  /// A call of this peer's storage, which the rows of the run wait for, has not returned for too
  /// long, and why; nothing where storage comes on.
  void storage_hangs(const std::optional<std::string>& why);
  struct HandOver {
    std::string why;
    PeerId to;  ///< has shown that it can store
  };
  /// Whether another peer has to lead.
  const std::optional<HandOver>& hands_over() const { return hands_over_; }
  /// Whether no new work begins, for a stop was asked for or the training has diverged.
  bool stopping() const {
    return run_ending_.stop_requested() ||
           history_.commit_log.state().skips_in_a_row >= kSkipsThatEndTheRun;
  }

  // The end of the run.
  void receive(const FailureMessage& message, PeerId from);
  void receive(const EndHeard& message, PeerId from);
  void receive(const EndDurable& end);
  void storage_failed(const StorageFailed& failure);
  /// The peer is silent and cannot be killed: the run stands until it is heard or given up, but a
  /// stop does not wait for it.
  void wait_for_unkillable(PeerId peer);
  /// It cannot hear of the end, which is decided. Whoever leads after this peer finds the mark.
  void end_without(PeerId peer) { run_ending_.unreachable(peer); }
  /// It is given up: the run ends without it, and can be resumed.
  void unreachable(PeerId peer, const Status& why);
  /// Whether it is decided how the run ends.
  bool ends() const { return run_ending_.decided(); }
  /// Whether the end is announced, and all have acknowledged it or were waited for long enough.
  bool over() const { return run_ending_.state(now_s_) == RunEnding::State::over; }
  /// When those that have not acknowledged the end are given up; nothing before the end is
  /// announced, nor, but for a stop, in a run that recovers.
  std::optional<double> gives_up_s() const { return run_ending_.gives_up_s(); }
  /// How the run ended. REQUIRES: over().
  const Status& ending() const { return run_ending_.how(); }
  /// Sends ExitMessage to all others: they may finish. REQUIRES: over().
  void send_exit();

  /// The sender cannot make the last view from the one that it has.
  void receive(const WholeViewRequest& message, PeerId from);

  // Repair.
  /// The peer is dead: a table round begins, to repair what it leaves undone, or, if it served in a
  /// static pipeline, to go back to a checkpoint. Where the plan does not recover, the run ends,
  /// and can be resumed.
  void lost(PeerId peer, const std::string& how, const std::optional<Suspicion>& suspicion = {});
  void receive(const TableMessage& message, PeerId from);
  void receive(const UnableMessage& message, PeerId from);
  void receive(const ManifestLoaded& manifest);

  // Who serves what, who leaves, who comes.
  void receive(const JoinMessage& message, PeerId from);
  void receive(const LearnedMessage& message, PeerId from);
  void receive(const NoticeMessage& message, PeerId from);
  void receive(const NoRoomMessage& message, PeerId from);
  void receive(const DamagedMessage& message, PeerId from);
  /// Whether this peer was asked to leave and nothing of it is needed any more: the next in line
  /// leads.
  bool has_left() const { return roles_.leader_has_left(); }
  void receive(const PeerSpawned& spawned);
  void receive(const SpawnFailed& failed);

 private:
  /// For torture: what is counted is what a look at everything gives.
  void check_counts() const;

  // ---- Open steps: issue and count microbatches
  /// Opens the steps that may start: those whose weights the committed steps determine. None while
  /// a peer is to leave its pipeline.
  void open_steps();
  /// Issues microbatches, an older step first, until the window is full.
  void issue();

  // ---- Seals
  /// Seals the stages of the steps whose microbatches are all finished: all but those that have a
  /// seal, lack a contribution, or are reduced.
  void seal_complete_steps();
  // ---- Commits
  /// Commits the next step, once the state before it is agreed on and all hold its gradient.
  void commit_reduced_steps();
  /// Has a stage's sums reduced once more, if what came out is not to be trusted; the second time,
  /// or with collectives the third, the run ends.
  void reduce_again(OpenStep& open, const OpenStep::Doubt& doubt);
  /// Decides the commit record, and sends it to all.
  void commit(Step step, const OpenStep& open);
  /// Closes the validation passes behind the last step whose microbatches are finished.
  void finish_validation_passes();
  /// Sends it to all members, this peer included.
  void send_all(const MessageBody& body);

  // ---- Agreement on state hashes
  /// Waits from now on for the hashes of the state after this step.
  void await_agreement(const CommitRef& record, double seal_to_commit_s);
  /// Stores the rows of the steps on whose state all replicas agree, in their order, and notes
  /// whether a checkpoint is owed; ends the run where replicas disagree.
  void agree_on_hashes();

  // ---- Rows
  /// Stores the validation rows whose states are agreed on, in order of steps.
  void store_validations();
  /// Remembers the last record of the newest agreed step: once it is durable, no peer keeps the
  /// commits that these rows were made from.
  void track_agreed_rows();
  /// The lives of all members end with the run.
  void end_lives(const Status& how);

  // ---- Checkpoint rounds
  /// Asks for the one that is owed, unless too many are being written.
  void ask_for_owed_checkpoint();
  void ask_for_checkpoint();
  /// During a stop whoever is asked now has the whole patience.
  void begin_patience_anew();
  /// "there is no checkpoint of step 7: ...": of the last committed one.
  std::string without_checkpoint(const std::string& because) const;

  // ---- Work that hangs
  /// Has peers shown to be able to do what is late elsewhere, and gives one up that hangs alone.
  void help_the_late();
  /// This leader's storage hangs: finds out whether another peer's does not; if no one's is found
  /// to work for long, ends the run without it.
  void help_own_storage();

  // ---- The end of the run
  /// Ends the run when training is done, was asked to stop, or has diverged, and all is durable; a
  /// last checkpoint that is missing is asked for before.
  void end_when_done();
  /// The same for a run that was asked to stop: no wait is longer than plan_.stop_patience_s(), and
  /// nobody waits for those whom nobody can kill where others can answer.
  void end_when_stopped(const std::string& why);
  /// Has all replicas agree on the state of the last step, as far as they answer. Whether they do.
  bool agree_at_a_stop(const std::string& why, bool too_long);
  /// Asks for its checkpoint. Whether nobody owes a part of one any more.
  bool checkpoint_at_a_stop(bool too_long);
  /// Has the end marked in storage; the first call decides how the run ended.
  void end(const Status& how);
  /// Sends EndMessage to all others, the first time: the mark is durable or cannot be made.
  void announce_end();

  // ---- Table rounds: a new view, the tables of all who live, then repair
  /// Sends the changed view to all, and awaits the tables with which all answer; the first view of
  /// a run needs none.
  void publish_view();
  /// To each what has changed since the last published view, if it was sent that; else the view.
  void send_view();
  /// A table of this view that no round awaits any more.
  void receive_late(const TableMessage& message, PeerId from);
  /// Handles what was held back. To be called when no round is under way.
  void release_held_back();
  /// All tables are here: takes over what a dead leader left, and repairs what deaths have broken.
  void finish_table_round();
  /// During a stop a round does not wait for those whom nobody can kill, and for nobody longer than
  /// for anything else then. Whether it is over.
  bool finish_without_the_late();
  /// Whether what steps lack is worth a round: nothing is committed any more after a stop, and a
  /// fall back has all done again.
  bool repairs_steps() const;
  /// Begins a table round where nothing has come for long, whatever the cause. Whether it did.
  bool plan_again_at_deadline();

  // ---- Repair, from the tables
  /// Has seals and microbatches of the open steps repaired.
  StepRepairs repair_open_steps();
  /// Takes over the commits of the leaders before, and announces again what not all have heard.
  void adopt_commits();
  /// Enters the state hashes of the tables into the steps that are not agreed on.
  void collect_hashes();

  // ---- Repair: a stage without replicas, or a pipeline without a peer
  /// Gives stages without a replica to those that have learned them; where nobody has, or peers
  /// live in different incarnations, all fall back to a checkpoint. False where either happened:
  /// another round follows.
  bool repair_stages();
  struct GoingBack {
    std::string why;      ///< for people
    bool proves = false;  ///< the leader reads all of the checkpoint
  };
  /// Asks for the newest checkpoint; when it is known, a new incarnation begins there.
  void fall_back_to_checkpoint(GoingBack how);
  /// Something has become of a static pipeline that only going back puts right: so the next table
  /// round does. `why`: for people.
  void break_pipelines(std::string why);
  /// All live peers dealt to the stages anew; as many serve as at the start, if there are as many.
  /// None where they have too little memory, and why.
  Result<View> redealt_view() const;

  // ---- Who serves what
  /// Promotes, assigns and drops learners, has newcomers spawned, lets peers move and leave.
  void change_roles();
  /// Notices to all stop the run, and so does train.max_hours.
  void note_a_stop();

  // ---- Leaving a static pipeline
  /// Nobody learns the stage of a peer that departs there: once the open step is committed and its
  /// state written, all go on from there without the peer.
  void free_departing();

  Step committed() const { return history_.committed(); }

  PeerId self_;
  const RunPlan& plan_;
  Outbox outbox_;  // shares its actions with that of this leader's peer
  const FailureDetector& failure_detector_;
  View view_;
  ViewRef published_;  // the last, of this term and incarnation; null before
  bool takes_over_;    // from a dead leader whose commits are not known yet
  RunHistory history_;
  CollectiveBallot collectives_;  // of the last published view
  const double& now_s_;

  // What follows a commit.
  LeaderRecord record_;
  RunEnding run_ending_;
  std::optional<double> stop_deadline_s_;  // of what a stop waits for now

  // Table rounds.
  TableRound round_;
  ProgressDeadline deadline_;
  std::shared_ptr<const RestartPoint> restart_;
  std::optional<GoingBack> must_go_back_;  // why all must, if they must
  GoingBack went_back_;                    // how they did last, or are about to
  Budgets budgets_to_be_;                  // once all go back, of peers that had less room

  Roles roles_;  // who serves what

  // Work that hangs.
  LateWork late_;
  std::optional<std::string> own_storage_hangs_;  // why rows do not become durable
  std::optional<HandOver> hands_over_;
  bool somebody_came_back_ = false;  // into the line of those who may lead: no view says so yet

  Checkpoints checkpoints_;
};

}  // namespace swarmpi
