#pragma once
// The replicas of one peer: works on microbatches, keeps one accumulator for each stage and step,
// freezes it for a seal, reduces with the other replicas of the stage, and applies what is
// committed. It keeps what it has sent until the commit, for repairs. The leader learns of it by
// reports, and by a table after each change of the view.

#include <algorithm>
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
#include "protocol/reduction/reduction.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_log.hpp"
#include "protocol/wiring/router.hpp"

namespace swarmpi {

class ReplicaHost {
 public:
  ReplicaHost(PeerId self, const RunPlan& plan, const ResumeState& resume, Outbox& outbox);

  /// The time of the event that comes next; books the time since the last one as idle or as
  /// communication if no job ran.
  void set_now(double now_s);
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
  void receive(const TensorMessage& message, PeerId from);

  void finished(const JobFinished& job);
  void stored(const StageStored& part);
  void loaded(const StageLoaded& stage);

  /// Starts the next job if none runs: what completes a step first, then backward, then forward;
  /// older steps first.
  void start_job();
  /// Sends the leader what was noted since the last report, if anything was.
  void flush_report();

  /// All that a repair, or a new leader, has to know of this peer.
  TableMessage table() const;
  /// The commits that this peer has heard of.
  const CommitLog& commit_log() const { return commit_log_; }
  /// The live peers from which something must come. Because links keep their order, one that
  /// answers a ping has received all that was sent to it before.
  std::set<PeerId> awaited() const;
  /// The job that runs, or what is waited for; for messages about stalls.
  std::string activity() const;
  /// What is still here of committed steps or of stages that were left, though nothing needs it; ""
  /// if nothing. For tests.
  std::string left_over() const;

 private:
  // ---- One stage's replica

  /// The integer sums of a stage and step.
  struct Accumulator {
    Bitmap microbatches;
    std::vector<kernels::Contribution> tensors;  // over these
    std::optional<SealId> frozen;
    bool settled = false;  // the reduced gradient is known, or not wanted: no more is added
    std::optional<WorkId> not_added;  // a backward pass that added nothing because of that
  };
  /// A stage's state on its way here, tensor by tensor. Those that are here take part in every
  /// update; after an update without the step's reduced gradient they count as not here.
  struct Learning {
    enum class Memory : std::uint8_t { none, being_allocated, ready } memory = Memory::none;
    std::vector<bool> here;
    std::vector<std::uint64_t> hashes;               // of those
    std::map<std::int32_t, PeerId> asked;            // for the others
    std::map<std::int32_t, TensorMessage> to_write;  // came; of the last applied step, or ahead

    bool complete() const { return std::find(here.begin(), here.end(), false) == here.end(); }
  };
  /// A stage that this peer serves, or learns.
  struct StageReplica {
    std::vector<Block> blocks;
    bool loading = false;  // from a checkpoint: nothing is done with the stage before it is loaded
    std::optional<Learning> learning;
    Step applied;                       // the last step in the state
    std::optional<StageStored> stored;  // of the last applied step
    std::map<Step, Accumulator> accumulators;
    std::map<Step, Reduction> reductions;    // of sealed steps that are not applied
    std::map<Step, ReducedMessage> reduced;  // likewise; that were acknowledged
    std::optional<SealId> newest_seal;       // messages under older ones are ignored
    using ReductionMessage = std::variant<ShareMessage, ChunkMessage>;
    std::map<SealId, std::vector<std::pair<PeerId, ReductionMessage>>> awaiting_seal;
    PeerRow use;  // of the open step
    std::int64_t queue_samples = 0;
  };

  /// Serves a stage from now on, with what was learned of it if it was; routes to the next stage.
  void serve(StageId stage);
  /// REQUIRES: serves_or_learns(stage).
  StageReplica& replica_of(StageId stage);
  /// False for a stage that the last view took from this peer, though messages for it may still be
  /// on their way: they are ignored, and the tables that follow the view show what is lost.
  bool serves_or_learns(StageId stage) const { return replicas_.contains(stage); }
  /// Made, empty, when it is first asked for.
  Accumulator& accumulator(StageId stage, Step step);
  /// Whether a training microbatch is in the sums of its stage and step.
  bool contributed(const WorkId& work) const;

  // ---- The table of microbatches

  /// How a microbatch came to this peer.
  struct Arrival {
    PayloadRef input;
    PeerId from;
    double sent_s = 0;     // on the clock of `from`
    double arrived_s = 0;  // on this peer's
    PathRef path;
  };
  /// What this peer has of a microbatch in a stage, until the step is committed.
  struct Work {
    Arrival arrival;
    bool forward_due = false;      // the output is to be made, and sent
    bool awaits_gradient = false;  // of the output
    bool backward_due = false;     // that gradient is here
    std::optional<PeerId> sent_to;
    PayloadRef output;            // that was sent
    PayloadRef input_gradient;    // that was sent, or could not be
    std::int64_t kept_bytes = 0;  // of these, within the memory for them

    bool active() const { return forward_due || awaits_gradient || backward_due; }
    Phase phase() const;
  };

  /// A microbatch came: notes it, and decides from what is known of it which passes are due.
  void take_on(const WorkId& id, Arrival arrival);
  /// Sends the output to the next stage, or has it made first; at the end of a path, tells the
  /// holder behind it where the gradient is wanted.
  void pass_on(const WorkId& id, Work& work);
  /// Sends the output to the holder that the path names, else to the peer that had it before, else
  /// to the one that the router chooses.
  void send_output(const WorkId& id, Work& work, const PayloadRef& output);
  /// The output's gradient is here (null in the last stage): the backward pass is due.
  void await_backward(const WorkId& id, Work& work, const PayloadRef& output_gradient);
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
  /// Whether what was sent may be kept for repairs, within the memory for it; if so, books it.
  bool keep(Work& work, const PayloadRef& payload);
  /// After a pass: drops the input if no pass is due, and the row if nothing of it can be needed.
  void drop_if_done(std::map<WorkId, Work>::iterator entry);
  /// At a commit: drops the microbatches, passes and losses of the step and of those before.
  void forget_works(Step committed);
  bool in_last_stage(const WorkId& work) const { return work.stage.value + 1 == plan_.stages(); }
  bool alive(PeerId peer) const { return view_->contains(peer); }

  // ---- The queue of jobs

  /// The job that runs.
  struct Running {
    std::string what;
    StageId stage;
    double started_s = 0;
    bool result_is_void = false;  // all went back, or the stage was left, since it began
  };

  /// The next job of any kind; in this order: stages to free, learning, updates, reduction,
  /// microbatches.
  std::optional<Job> next_job();
  /// The first backward pass that may run, else the first forward pass.
  std::optional<Job> next_microbatch_job();
  /// Whether the stage has the weights that the microbatch's step builds on.
  bool weights_ready(const WorkId& work) const;
  /// Whether the weights are ready and the accumulator takes the microbatch, or need not.
  bool may_run_backward(const WorkId& id);

  void handle(const ForwardResult& result, double duration_s);
  void handle(const BackwardResult& result, double duration_s);
  void handle(const ShareResult& result, double duration_s);
  void handle(const ReduceResult& result, double duration_s);
  void handle(const PlaceResult& result, double duration_s);
  void handle(const GatherResult& result, double duration_s);
  void handle(const ApplyResult& result, double duration_s);
  void handle(const PrepareResult& result, double duration_s);
  void handle(const ReadResult& result, double duration_s);
  void handle(const WriteResult& result, double duration_s);
  void handle(const DropResult&, double) {}

  /// After a forward pass: tells the peer that chose this one how long it took, if it had a choice.
  void report_forward_done(const WorkId& id, const Work& work, double compute_s);
  /// After a backward pass that added: the microbatch is in the sums; the leader is told.
  void note_contribution(const BackwardResult& result);
  /// After a backward pass that did not add: if the sums lack the microbatch, the leader is told,
  /// or, while they are settled, it is noted for the case that the stage is reopened.
  void note_not_added(const WorkId& id);
  /// After a pass in the last stage: the leader is told the loss.
  void note_loss(const MicrobatchId& microbatch, double nats);

  // ---- Seal, reduction, commit

  std::vector<BlockRange> chunks_of(const StageReplica& replica, const StageSeal& seal) const;
  /// The accumulator holds what was sealed: takes nothing more, and is reduced unless the step is
  /// skipped.
  void freeze(const SealMessage& message, const StageSeal& seal, StageReplica& replica);
  /// Makes the reduction for a seal, with what the last one has in place, and gives it the messages
  /// that waited for the seal.
  void begin_reduction(Step step, const StageSeal& seal, StageReplica& replica);
  /// The reduction under this seal; null if it has not begun, or is closed.
  Reduction* find_reduction(StageId stage, const SealId& seal);
  /// A message of a replica that received the seal first waits for it here.
  template <class Message>
  void await_seal(const Message& message, PeerId from);
  /// The next job of the reduction of the step after the last applied, in any stage.
  std::optional<Job> next_reduction_job();
  /// When all chunks are in place: acknowledges with the sums of squares of the stage's tensors.
  void acknowledge_if_complete(StageId stage, const Reduction& reduction);
  /// The reduced gradient is here, or not wanted: settles the accumulator and tells the leader.
  void acknowledge(ReducedMessage message);
  /// Whether any reduction is open and not complete.
  bool reducing() const;
  /// The first update whose stage is allocated, and neither being written nor loaded.
  std::optional<Job> next_update_job();
  /// After an update: drops sums and reduced gradients of applied steps.
  static void forget_steps(Step applied, StageReplica& replica);

  // ---- Learning, leaving, going back

  /// The state of a tensor that is being read for a learner.
  struct Reading {
    PeerId learner;
    Step step;  // of the state
  };

  /// Begins to learn a stage; if it is learned already, asks anew for what dead replicas owe.
  void learn(StageId stage);
  /// Nothing of the stage's state is here: learns it as of the last commit.
  void begin_to_learn(StageId stage, StageReplica& replica);
  /// A learner missed commits: begins to learn all its stages anew.
  void learn_from_last_commit();
  /// Asks replicas for tensors that are not here, a few at a time.
  void fetch(StageId stage, StageReplica& replica);
  /// The next job of a learner (allocate, write a tensor), or for one (read a tensor).
  std::optional<Job> next_learning_job();
  /// When all tensors are here: sends the leader their hashes.
  void tell_learned(StageId stage, const StageReplica& replica);
  /// The step up to which this peer can apply updates with the reduced gradients that are here.
  Step reachable_step(const StageReplica& replica) const;
  /// Drops the stages that a view does not give to this peer, with their microbatches and jobs.
  void drop_all_but(const std::set<StageId>& stages);
  /// Whether compute has still to free what it held of this stage before.
  bool to_be_dropped(StageId stage) const;
  /// After going back: loads the stages that are served, each as soon as nothing else uses it.
  void start_loading();
  StageRow stage_row(StageId stage, Step step, const StageReplica& replica) const;

  PeerId self_;
  const RunPlan& plan_;
  Outbox& outbox_;
  ViewRef view_ = no_view();
  double now_s_ = 0;
  Step resumed_from_;
  CommitLog commit_log_;
  std::map<StageId, StageReplica> replicas_;
  std::map<StageId, std::unique_ptr<Router>> routers_;  // to each next stage

  // The table of microbatches.
  std::map<WorkId, Work> works_;  // of open steps
  std::int64_t kept_bytes_ = 0;

  // The queue of jobs.
  std::set<WorkId> forwards_due_;
  std::map<WorkId, PayloadRef> backwards_due_;  // with the output's gradient
  std::deque<ApplyJob> updates_due_;
  std::vector<std::pair<PeerId, FetchMessage>> fetches_due_;  // of learners
  std::deque<DropJob> drops_due_;
  std::optional<Running> running_;
  std::optional<Reading> reading_;
  std::vector<bool> tensors_updated_;  // of a learner: those that the running update is of
  std::set<StageId> being_written_;    // to a checkpoint: no job may change their state

  // Going back to a checkpoint.
  std::set<StageId> held_before_restart_;  // to be freed, but for those of the next view
  std::optional<std::vector<StoredFile>> restart_files_;  // if all have gone back
  std::set<StageId> to_load_;
  std::int64_t loads_running_ = 0;  // while there are any, no job begins

  // The meter of time; since the last report of use.
  double idle_s_ = 0;
  double communication_s_ = 0;  // of a sealed step, with nothing to compute

  // What the leader is told, in the next report and in tables.
  ReportMessage report_;
  std::map<MicrobatchId, double> losses_;                          // of open steps, in nats
  std::map<Step, std::shared_ptr<const StepFacts>> sealed_facts_;  // of open steps
  std::vector<HashFact> hashes_;  // of steps whose rows may not be durable
};

}  // namespace swarmpi
