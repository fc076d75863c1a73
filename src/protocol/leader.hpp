#pragma once
// A peer as leader: it issues microbatches (the source), keeps the ledger, seals complete steps,
// commits what all have reduced, writes down what all have agreed on, asks for checkpoints, repairs
// what deaths have broken, and ends the run.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/messages/outbox.hpp"
#include "protocol/repair/resend_plan.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_log.hpp"
#include "protocol/step/ledger.hpp"
#include "protocol/wiring/router.hpp"

namespace swarmpi {

/// Gradients that stay infinite or NaN will not recover.
inline constexpr std::int64_t kSkipsThatEndTheRun = 3;

/// How long a peer that was told to end may keep the others waiting, where nobody kills the silent.
inline constexpr double kPatienceAtTheEndS = 5;

/// Whoever was called to join and has not done so by then will not.
inline constexpr double kPatienceForNewcomersS = 120;

/// How a peer comes to lead.
struct Succession {
  Term term;
  View view;                 ///< of the live peers; its number is the leader's to give
  bool takes_over = false;   ///< from one that has died
  double since_s = 0;        ///< when it was heard that nobody leads
  std::int64_t workers = 1;  ///< that are to serve, as long as there are as many peers
  PeerId newest_at_start;    ///< who has a higher id has joined later
  std::int64_t peers = 1;    ///< at the start, spares included
  /// From one whose silence may come from calling for newcomers: this leader calls none for long.
  bool from_a_silent_one = false;
  std::shared_ptr<const RestartPoint> restart;  ///< that all live in, if any
};

/// How a peer went.
enum class DepartureKind : std::uint8_t { lost, left };

class Leader {
 public:
  Leader(PeerId self, const RunPlan& plan, const CommitLog& commit_log, Succession succession,
         const Outbox& outbox, double now_s);

  /// The time of what comes next.
  void set_now(double now_s) { now_s_ = now_s; }
  /// Publishes the first view of this term. `gone`: those of the newest view that are not in it.
  void begin(const std::map<PeerId, DepartureKind>& gone);
  /// Has told everybody to end, and heard from all (or waited long enough).
  bool over() const;
  /// When the last who have not answered are given up; nothing before the end is announced, nor
  /// where the silent are killed.
  std::optional<double> gives_up_s() const { return gives_up_s_; }
  /// How the run ended. REQUIRES: the end is announced.
  const Status& ending() const { return *ending_; }
  /// Lets everybody go. REQUIRES: over().
  void send_exit();
  const View& view() const { return view_; }

  void receive(const ForwardDone& message, PeerId from);
  void receive(const ReportMessage& message, PeerId from);
  void receive(const SealRefused& message, PeerId from);
  void receive(const ReducedMessage& message, PeerId from);
  void receive(const TableMessage& message, PeerId from);
  void receive(const UnableMessage& message, PeerId from);
  void receive(const LearnedMessage& message, PeerId from);
  void receive(const JoinMessage& message, PeerId from);
  void receive(const StageStoredMessage& message, PeerId from);
  void receive(const NoticeMessage& message, PeerId from);
  void receive(const FailureMessage& message, PeerId from);
  void receive(const EndHeard& message, PeerId from);
  /// The peer is dead: what it was to do is repaired. Where the plan does not recover, or a stage
  /// is lost with it, the run ends, and can be resumed.
  void lost(PeerId peer, const std::string& how);
  /// Has handed over all that it had: the next in line leads.
  bool has_left() const { return has_left_; }
  void receive(const PeerSpawned& spawned);
  void receive(const SpawnFailed& failed);
  void durable(const RecordDurable& record);
  void durable(const CheckpointDurable& checkpoint);
  void durable(const EndDurable& end);
  void loaded(const ManifestLoaded& manifest);
  void storage_failed(const StorageFailed& failure);
  /// The peer is silent, and cannot be killed: the run ends without it, and can be resumed.
  void unreachable(PeerId peer);

  /// One round of decisions from what is known: issue, seal, commit, write down, end.
  void lead();
  std::string waiting_for() const;

 private:
  /// How one stage of a step was sealed last.
  struct SealedStage {
    std::optional<SealId> seal;  // none: to be sealed (again)
    std::vector<PeerId> replicas;
    std::vector<PeerId> learners;
    std::set<PeerId> finished_chunk_senders;  // of finished chunks, for those who lack them
    std::int64_t chunk_replicas = 0;          // replicas that its chunks are cut for
    std::map<std::int32_t, std::set<PeerId>>
        finished_chunk_holders;          // of finished chunks, before the next seal
    std::optional<double> reduced_at_s;  // by all replicas
  };
  /// A step between its first microbatch and its commit.
  struct OpenStep {
    OpenStep(const RunPlan& plan, Step step);
    Ledger ledger;
    std::map<Purpose, Bitmap> issued;
    std::shared_ptr<const StepFacts> facts;  // once sealed
    double sealed_at_s = 0;
    std::map<StageId, SealedStage> stages;
    std::map<StageId, std::map<PeerId, std::vector<double>>> reduced;
  };
  /// A committed step whose state hashes are not all known yet.
  struct Unagreed {
    CommitRef record;
    double seal_to_commit_s = 0;
    std::map<StageId, std::map<PeerId, std::vector<std::uint64_t>>> hashes;  // of each tensor
    std::vector<PeerRow> uses;
  };

  void open_steps();
  void open(Step step);
  void issue();
  void issue(OpenStep& open, const MicrobatchId& id, std::optional<PeerId> to, PathRef path);
  void seal_complete_steps();
  void commit_reduced_steps();
  void finish_passes();
  void agree_on_hashes();
  void note_written();
  void end_when_done();

  // Repair.
  bool awaits_others(PeerId from) const;
  void publish_view();
  /// All tables are here: takes over what a dead leader left, and sets right what deaths broke.
  void finish_table_round();
  void learn_commits();
  void learn_hashes();
  void open_begun_steps();
  void learn_rows();
  bool stands(StageId stage, const SealedStage& sealed) const;
  /// What the peer had of this stage, or of all, is not there any more.
  void forget(PeerId peer, std::optional<StageId> stage);
  /// Where nothing comes for long, whatever may be the cause, it asks for tables and plans again.
  bool plan_again_at_deadline();
  void note_progress();
  void repair_seals(Step step, OpenStep& open);
  void learn_chunks(StageId stage, Step step, SealedStage& sealed) const;
  std::int64_t chunks_of(StageId stage, std::int64_t chunk_replicas) const;
  /// The orders given.
  std::int64_t repair_microbatches(OpenStep& open);
  MicrobatchState microbatch_state(const OpenStep& open, const MicrobatchId& id) const;
  void repair_checkpoints();

  // Who serves what.
  /// Stages without a replica are given to those that have learned them, or else all go back to a
  /// checkpoint. Whether there was nothing to do.
  bool repair_stages();
  void go_back();
  View deal_anew() const;
  void promote_learned();
  void promote(PeerId peer, StageId stage);
  void assign_learners();
  /// Whether a spare's start-up is over; the first to ask calls it.
  bool spare_ready(PeerId spare);
  std::optional<StageId> neediest_stage() const;
  /// Serve or learn a stage, and do not want to leave.
  std::int64_t busy_peers() const;
  /// Those that serve the stage, and leave neither it nor the run.
  std::vector<PeerId> staying(StageId stage) const;
  bool learns(PeerId peer, StageId stage) const;
  /// A learner that holds a commit up does not learn for a while.
  void drop_slow_learners();
  void drop_learner(PeerId peer, StageId stage, const std::string& why);
  bool backs_off(PeerId peer) const;

  // Who is called from outside.
  void call_newcomers();
  /// Fewer are here, or on their way, than at the start.
  bool wants_newcomers() const;
  void pause_calls();

  // Who leaves, and who moves.
  void process_notices();
  void move_peers();
  bool overtaken(std::size_t move) const;
  /// Those that leave a stage get no new work, and go when what they have done is committed.
  void process_departures();
  bool hand_over();
  bool mark_leaving(PeerId peer, StageId stage);
  bool choose_successor(StageId stage);
  /// It does not leave the stage after all. Whether it was about to.
  bool stay(PeerId peer, StageId stage);
  void keep_the_needed();
  bool remove_drained();
  bool is_drained(PeerId peer, StageId stage);
  bool release_drained();
  std::int64_t wanted_workers() const;
  /// The chunks that are finished, and who lacks them.
  std::vector<ChunkFact> chunk_facts(StageId stage, const SealedStage& sealed) const;

  void commit(Step step, const OpenStep& open);
  std::shared_ptr<const CommitRecord> decide(Step step, const OpenStep& open) const;
  double gradient_norm(const OpenStep& open) const;
  void await_agreement(const CommitRef& record, double seal_to_commit_s);
  /// The stage hashes summed, once all replicas of all stages have reported; ends the run where
  /// they differ.
  std::optional<std::uint64_t> agreed_hash(Step step, const Unagreed& unagreed);
  void write_row(const Unagreed& agreed, std::uint64_t state_hash);
  void ask_for_checkpoint(const ResumeState& state);
  void ask_for_part(Step step, StageId stage);
  /// Names of the tensors of a stage whose hashes are not all equal.
  std::string unequal_tensors(StageId stage,
                              const std::vector<std::vector<std::uint64_t>>& hashes) const;
  /// Which tensors of a stage differ, and who has what. REQUIRES: two replicas differ.
  std::string disagreement(Step step, StageId stage,
                           const std::map<PeerId, std::vector<std::uint64_t>>& by_peer) const;
  void note_validation(Step step, double loss);
  void write_validations();
  void store(decltype(StoreRecord::row) row);
  void event(std::string kind, std::int64_t step, double cost_s, std::string detail);
  void end(ExitStatus code, const std::string& why);
  void tell_the_end();
  void send_all(const MessageBody& body);
  /// Peers that serve a stage.
  std::int64_t serving_peers() const;
  template <class Value>
  bool all_replicas(const std::map<StageId, std::map<PeerId, Value>>& answers) const;
  bool reduced_by_all(const OpenStep& open, StageId stage) const;
  bool reduced_by_all(const OpenStep& open) const;
  Step committed() const { return commit_log_.committed(); }
  bool stopping() const {
    return stop_requested_ || commit_log_.state().skips_in_a_row >= kSkipsThatEndTheRun;
  }
  double run_time_s() const { return time_offset_s_ + now_s_; }

  PeerId self_;
  const RunPlan& plan_;
  Outbox outbox_;  // beside its peer's
  Term term_;
  View view_;
  bool takes_over_;                 // and does not know yet where the run stands
  std::unique_ptr<Router> router_;  // to stage 0
  CommitLog commit_log_;            // of this leader: it commits before it hears of it as a peer
  double time_offset_s_;            // of earlier parts of the run
  double now_s_;

  std::int64_t workers_;
  PeerId newest_at_start_;
  std::int64_t peers_at_start_;
  std::shared_ptr<const RestartPoint> restart_;
  bool goes_back_ = false;  // waits for a checkpoint's manifest
  std::map<std::pair<PeerId, StageId>, LearnedMessage> learned_;
  struct LearnerBackoff {
    int times = 0;
    double until_s = 0;
  };
  std::map<PeerId, LearnerBackoff> learner_backoffs_;  // of learners that were too slow
  std::map<PeerId, double> ready_at_s_;                // of spares that were called

  struct Notice {
    double at_s = 0;
    std::string why;
  };
  std::map<PeerId, Notice> notices_;
  std::set<PeerId> departing_;
  std::set<PeerId> released_;  // what they had asked before may come later
  std::map<std::pair<PeerId, StageId>, Step> drained_after_;  // of those that leave a stage
  std::set<std::size_t> moves_done_;
  bool has_left_ = false;

  bool spawning_ = false;                  // another process is being started
  std::map<PeerId, double> spawned_at_s_;  // when; have not joined yet
  double last_loss_s_;
  double calls_again_s_;
  int failed_calls_ = 0;

  std::map<PeerId, TableMessage> tables_;  // of this view
  std::set<PeerId> tables_awaited_;
  // Came after their senders' tables: a repair is planned from the tables alone, for what is known
  // of one peer but not yet of the next looks like a gap.
  std::vector<std::pair<PeerId, std::variant<ReportMessage, ReducedMessage, UnableMessage>>> early_;
  std::map<WorkId, std::vector<std::pair<PeerId, const WorkRow*>>> works_;  // of these tables
  double repair_since_s_ = 0;
  double progress_s_ = 0;     // when something came last
  double deadline_s_ = 0;     // after that
  bool at_deadline_ = false;  // the tables that are awaited were asked for because of it

  std::map<Step, OpenStep> open_;
  Step next_to_open_;
  std::int64_t next_seal_ = 1;
  std::map<Step, Unagreed> unagreed_;
  Step agreed_;
  std::map<Step, ValidationRow> validations_;  // by the step they rode on, until it is agreed on
  double last_row_s_;

  std::int64_t records_stored_ = 0;
  std::int64_t records_durable_ = 0;
  std::deque<std::pair<std::int64_t, Step>> rows_stored_;             // last record of each step
  using StateHashes = std::map<StageId, std::vector<std::uint64_t>>;  // of each tensor
  StateHashes agreed_hashes_;                                         // after step agreed_
  struct PendingCheckpoint {
    ResumeState state;
    StateHashes hashes;  // what the files must hold
    double asked_s = 0;
    std::map<StageId, PeerId> asked;
    std::map<StageId, StoredFile> files;
  };
  std::map<Step, PendingCheckpoint> checkpoints_;
  Step last_checkpoint_;
  bool checkpoint_owed_ = false;  // one that was due could not be made
  std::optional<std::string> stop_requested_;
  std::optional<Status> ending_;
  bool end_told_ = false;  // it is durable, or cannot be
  bool storage_failed_ = false;
  std::set<PeerId> unreachable_;  // nobody waits for them to hear the end
  std::optional<double> gives_up_s_;
  std::set<PeerId> end_unheard_;  // told to end, not answered
};

}  // namespace swarmpi
