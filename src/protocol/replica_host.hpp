#pragma once
// The replicas of one peer: works on microbatches, keeps one accumulator for each stage and step,
// freezes it for a seal, reduces with the other replicas of the stage, and applies what is
// committed. It keeps what it has sent until the commit, for repairs. The leader learns of it by
// reports, and by a table after each change of the view.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "protocol/messages/message.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/method/job_order.hpp"
#include "protocol/replica/host_facts.hpp"
#include "protocol/replica/job_name.hpp"
#include "protocol/replica/job_watch.hpp"
#include "protocol/replica/microbatch_table.hpp"
#include "protocol/replica/piece_requests.hpp"
#include "protocol/replica/stage_replica.hpp"
#include "protocol/replica/state_access.hpp"
#include "protocol/replica/time_ledger.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_log.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/restart_point.hpp"
#include "protocol/wiring/router.hpp"

namespace swarmpi {

class ReplicaHost {
 public:
  /// `now_s`: the time of the event under way; `awake_s`: how long this peer was awake. Its peer
  /// owns both.
  ReplicaHost(PeerId self, const RunPlan& plan, const ResumeState& resume, Outbox& outbox,
              const double& now_s, const double& awake_s);

  /// This peer takes part from now on in the run whose first term this is; `joins`: one that has
  /// begun without it. `born_s`: when its process started, on its clock.
  void take_part(Term run, bool joins, std::optional<double> born_s);
  /// Books the time since the event before as idle or as communication if no job ran, and of it
  /// what set_carried() has told as transfer. To be called first at each event.
  void book_time();
  /// For how long in all something was on its way to or from this peer.
  void set_carried(double total_s) { carried_s_ = total_s; }
  /// What the pass after the job that runs will read, as far as one can tell; null for nothing.
  PayloadRef read_next() const { return history_.works.read_next(); }
  /// Serves, and learns, the stages that the view gives to this peer; drops all others.
  void adopt(ViewRef view);
  /// Drops all that it has; with the next view it begins again from this checkpoint.
  void restart(const RestartPoint& checkpoint);

  void receive(const IssueMessage& message, PeerId from);
  void receive(const ForwardMessage& message, PeerId from);
  void receive(const ForwardDone& message, PeerId from);
  void receive(const BackwardMessage& message, PeerId from);
  void receive(const ResendMessage& message, PeerId from);
  void receive(const RedirectMessage& message, PeerId from);
  void receive(const SealMessage& message, PeerId from);
  void receive(const ReopenMessage& message, PeerId from);
  void receive(const ShareMessage& message, PeerId from);
  void receive(const ChunkMessage& message, PeerId from);
  void receive(const CommitMessage& message, PeerId from);
  void receive(const CheckpointMessage& message, PeerId from);
  void receive(const FetchMessage& message, PeerId from);
  void receive(const PieceMessage& message, PeerId from);
  void receive(const RatiosMessage& message, PeerId from);
  void receive(const WeightsMessage& message, PeerId from);
  void receive(const WeightsPlaced& message, PeerId from);
  void receive(const CollectiveIdMessage& message, PeerId from);
  void receive(const EnterMessage& message, PeerId from);

  void receive(const CollectiveIdMade& made);
  void receive(const CollectiveReady& ready);
  void receive(const CollectiveDone& done);
  void receive(const CollectiveFailed& failed);
  /// The peer is dead, which a view will say.
  void lost(PeerId peer);
  /// A message for this host is about to be received: what is to be repaired comes with it, or the
  /// plan has left this peer alone.
  void has_work_come() {
    if (repair_ == Repair::awaits_plan) repair_ = Repair::none;
  }

  /// Somebody wants to know whether jobs can be done here.
  void receive(const TryMessage& message, PeerId from);

  void finished(const JobFinished& job);
  void stored(const StageStored& part);
  void loaded(const StageLoaded& stage);

  // ---- Work that hangs
  /// Whether the CPU time of the job that runs is of interest.
  bool wants_probe() const { return job_watch_.wants_probe(awake_s_); }
  void probed(double job_cpu_s) { job_watch_.probed(job_cpu_s, awake_s_); }
  /// How long the job that runs does so, if it is late.
  std::optional<double> job_late_s() const { return job_watch_.late_s(awake_s_); }
  bool runs_a_job() const { return running_.has_value(); }
  /// What runs; "" where nothing does.
  std::string job() const { return running_ ? running_->name.text() : ""; }
  /// How long stages are being loaded, if any is: until all are, no job begins.
  std::optional<double> loading_s() const;
  /// The lane of stages hangs: parts of checkpoints are given up, and their stages go on. REQUIRES:
  /// the lane was abandoned, and nothing is being loaded.
  void give_up_storing(const std::string& why);
  /// It does not any more.
  void storage_goes_on() { storage_hangs_.clear(); }

  /// Starts the next job if none runs: what completes a step first, then backward, then forward;
  /// older steps first.
  void start_job();
  /// Sends the leader what was noted since the last report, if anything was that cannot wait.
  void flush_report();

  /// All that a repair, or a new leader, has to know of this peer.
  TableMessage table() const;
  /// The commits that this peer has heard of.
  const CommitLog& commit_log() const { return history_.commit_log; }
  /// How far the run's time is ahead of this peer's clock, as the commits tell that it has heard
  /// of: at least so far, for they were on their way for a while.
  double run_time_ahead_s() const { return run_time_ahead_s_; }
  /// The live peers from which something must come.
  FlatSet<PeerId> awaited() const;
  /// The job that runs, or what is waited for; for messages about stalls.
  std::string activity() const;
  /// What is still here of committed steps or of stages that were left, though nothing needs it; ""
  /// if nothing. For tests.
  std::string left_over() const;

 private:
  // ---- One stage's replica

  /// Serves a stage from now on, with what was learned of it if it was; routes to the next stage.
  void serve(StageId stage);
  /// REQUIRES: serves_or_learns(stage).
  StageReplica& replica_of(StageId stage);
  /// False for a stage that the last view took from this peer, though messages for it may still be
  /// on their way: they are ignored, and the tables that follow the view show what is lost.
  bool serves_or_learns(StageId stage) const { return history_.replicas.contains(stage); }
  /// Whether a training microbatch is in the sums of its stage and step.
  bool contributed(const WorkId& work) const;

  // ---- The table of microbatches

  /// A microbatch came: notes it, and decides from what is known of it which passes are due.
  void take_on(const WorkId& id, Arrival arrival);
  /// Sends the output to the next stage, or has it made first; at the end of a path, tells the
  /// holder behind it where the gradient is wanted.
  void pass_on(const WorkId& id, Work& work);
  /// Sends the output to the holder that the path names, else to the peer that had it before, else
  /// to the one that the router chooses.
  void send_output(const WorkId& id, Work& work, const PayloadRef& output);
  /// Sends the input's gradient to the peer that sent the input, unless it is undeliverable.
  void send_back(const WorkId& id, Work& work);
  /// Sends activations or their gradient, and books the bytes.
  template <class Message>
  void send_boundary(PeerId to, StageId from_stage, const PayloadRef& payload, Message message);
  /// Whether the next stage has nobody to send to: the path names a peer that does not serve its
  /// stage any more, or nobody serves the next stage. The work waits for another path.
  bool path_broken(const WorkId& id, const Work& work) const;
  /// Whether the peer that sent the input does not serve the stage before any more.
  bool undeliverable(const WorkId& id, const Work& work) const;
  bool in_last_stage(const WorkId& work) const { return work.stage.value + 1 == plan_.stages(); }
  bool alive(PeerId peer) const { return view_->contains(peer); }

  bool report_can_wait() const;

  // ---- The queue of jobs

  /// The job that runs.
  struct Running {
    JobName name;
    double started_s = 0;
    bool result_is_void = false;  // all went back, or the stage was left, since it began
  };

  /// The next job of any kind; in this order: an answer to who asks whether jobs can be done here,
  /// stages to free, learning, updates, reduction,
  /// microbatches.
  std::optional<Job> next_job();
  std::optional<Job> next_trial();
  /// The first backward pass that may run, else the first forward pass.
  std::optional<Job> next_microbatch_job();
  void handle(const ForwardResult& result, double duration_s);
  void handle(const BackwardResult& result, double duration_s);
  void handle(const ShareResult& result, double duration_s);
  void handle(const ReduceResult& result, double duration_s);
  void handle(const PlaceResult& result, double duration_s);
  void handle(const GatherResult& result, double duration_s);
  void handle(const ApplyResult& result, double duration_s);
  void handle(const WeightsResult& result, double duration_s);
  void handle(const PlaceWeightsResult& result, double duration_s);
  void handle(const PrepareResult& result, double duration_s);
  void handle(const ReadResult& result, double duration_s);
  void handle(const WriteResult& result, double duration_s);
  void handle(const DropResult&, double) {}
  void handle(const TryResult&, double) {}

  // ---- Where the time goes

  /// Why no job runs.
  TimeLedger::Wait why_waiting() const;
  /// Whether downloads are all that this peer does.
  bool only_learns() const;
  /// Whether it has joined late, and has yet to learn its first stage.
  bool is_starting() const;
  /// Books a job that is over, but for a pass whose result is wanted: that is booked with it.
  void book_job(const JobResult& result, bool is_wanted, double took_s);
  /// After an update: tells the leader what the peer's time went by with, once all its stages are
  /// as of this step.
  void tell_goodput(Step step);
  GoodputRow named(GoodputRow row, Step step) const;

  /// After a forward pass: tells the peer that chose this one how long it took, if it had a choice.
  void report_forward_done(const WorkId& id, const Work& work, double compute_s);

  // ---- Seal, reduction, commit

  void leave_collectives();
  /// Makes those of the stages that it serves in this view, in place of all before.
  void make_collectives();
  /// Tells the collectives what may be entered.
  void mind_collectives();
  /// Null if the stage has no collective in this view.
  CollectiveWay* way_of(StageId stage);
  /// The next job of a reduction, in any stage.
  std::optional<Job> next_reduction_job();
  /// Tells the leader what has become of a reduction, if anything has.
  void answer(std::optional<ReductionAnswer> answer);
  /// Whether any reduction is open and not complete.
  bool reducing() const;
  /// The next job of the first update whose stage is ready and not being written.
  std::optional<Job> next_update_job();

  // ---- Learning, leaving, going back

  /// Begins to learn a stage; if it is learned already, asks anew for what dead replicas owe.
  void learn(StageId stage);
  /// A learner missed commits: begins to learn all its stages anew.
  void learn_from_last_commit();
  /// Asks replicas for pieces that are not here, a few at a time.
  void fetch(StageId stage, StageReplica& replica);
  /// Null if the stage is not learned.
  Learning* learning_of(StageId stage);
  /// The next job of a learner (allocate, write a piece), or for one (read a piece).
  std::optional<Job> next_learning_job();
  /// When all pieces are here: sends the leader the hashes of the tensors.
  void tell_learned(StageId stage, const StageReplica& replica);
  void tell(const LoadRefusal& refusal);
  /// Drops the stages that a view does not give to this peer, with their microbatches and jobs.
  void drop_all_but(const std::set<StageId>& stages);
  /// Whether memory is bounded, and something is to be freed before anything is allocated.
  bool waits_for_room() const;
  /// After going back: loads the stages that are served, each as soon as nothing else uses it.
  void start_loading();

  /// A commit that is to be applied to a stage.
  struct Update {
    StageId stage;
    CommitRef record;
  };

  /// What belongs to one incarnation of the run: where all go back to a checkpoint, another begins.
  struct History {
    History(const RunPlan& plan, const ResumeState& state)
        : resumed_from(state.step),
          commit_log(plan, state),
          works(plan.kept_bytes),
          order(make_job_order(plan)) {}

    Step resumed_from;
    CommitLog commit_log;
    std::map<StageId, StageReplica> replicas;
    MicrobatchTable works;
    std::unique_ptr<JobOrder> order;
    std::deque<Update> updates_due;
    PieceRequests requests;  // of learners
    HostFacts facts;
  };

  PeerId self_;
  const RunPlan& plan_;
  Outbox& outbox_;
  ViewRef view_ = no_view();
  bool in_view_ = false;           // whether this peer is in it
  bool reported_in_view_ = false;  // and has reported something in it
  const double& now_s_;
  const double& awake_s_;

  // Where the time goes.
  std::optional<Running> running_;
  double booked_until_s_ = 0;
  double idle_s_ = 0;           // since the last report of use
  double communication_s_ = 0;  // likewise; of a sealed step, with nothing to compute
  double transfer_s_ = 0;       // likewise; of both
  double carried_s_ = 0, booked_carried_s_ = 0;
  TimeLedger time_ledger_;
  Term run_;
  bool joins_ = false;   // a run that has begun without this peer
  bool served_ = false;  // a stage, at any time
  std::optional<double> report_waits_since_s_;
  Step told_;  // of the last row
  enum class Repair : std::uint8_t { none, awaits_view, awaits_plan };
  Repair repair_ = Repair::none;

  double run_time_ahead_s_;
  JobWatch job_watch_;
  /// A question whether jobs can be done here.
  struct Trial {
    PeerId by;
    std::int64_t number = 0;
  };
  std::optional<Trial> trial_;   // the last that is to be answered
  std::optional<Trial> trying_;  // whose job runs
  std::string storage_hangs_;    // why no stage can be stored; "" where it can
  History history_;
  std::map<StageId, std::unique_ptr<Router>> routers_;  // to each next stage
  std::map<StageId, CollectiveWay> ways_;               // of the present view
  StateAccess access_;
  double loading_since_s_ = 0;  // if anything is being loaded; of the time awake
};

}  // namespace swarmpi
