#pragma once
// A peer as servant of its stages: works on microbatches, keeps one accumulator a stage and step,
// freezes it for a seal, reduces with the other replicas, applies what is committed. It keeps what
// it has sent until the commit, for repairs. What the leader wants to know travels in batched
// reports, and in a table after each change of the view.

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

  /// The time of what comes next; time since the last call is booked.
  void set_now(double now_s);
  /// Serves, and learns, the stages that the view gives to this peer.
  void adopt(const View& view);
  /// Forgets all, and goes on from this checkpoint with the next view.
  void restart(const RestartPoint& checkpoint);
  /// All that a repair, or a new leader, has to know of this peer.
  TableMessage table() const;
  /// What is committed, as heard here.
  const CommitLog& commit_log() const { return commit_log_; }

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
  /// Sends the leader what has been noted since the last report.
  void flush_report();
  /// Those from whom something must come: by the order of each link, whoever answers has had all
  /// that was sent to it.
  std::set<PeerId> awaited() const;
  /// What is being worked on or waited for, for messages about stalls.
  std::string activity() const;
  /// What is still here of steps that are committed or stages that were left, though it is of no
  /// use; "" if nothing.
  std::string left_over() const;

 private:
  struct Accumulator {
    Bitmap microbatches;
    std::vector<kernels::Contribution> tensors;  // over these
    std::optional<SealId> frozen;
    bool settled = false;  // the reduced gradient is known, or not wanted: no more is added
    std::optional<WorkId> not_added;  // a pass that added nothing because of that
  };
  /// A stage's state on its way here, tensor by tensor. Those that are here take part in every
  /// update; one whose reduced gradient is not here undoes them.
  struct Learning {
    enum class Room : std::uint8_t { none, being_made, ready } room = Room::none;
    std::vector<bool> here;
    std::vector<std::uint64_t> hashes;               // of those
    std::map<std::int32_t, PeerId> asked;            // for the others
    std::map<std::int32_t, TensorMessage> to_write;  // came; of the last applied step, or ahead

    bool complete() const { return std::find(here.begin(), here.end(), false) == here.end(); }
  };
  struct Served {
    std::vector<Block> blocks;
    bool loading = false;  // from a checkpoint: nothing can be done before
    std::optional<Learning> learning;
    Step applied;                       // the last step in the state
    std::optional<StageStored> stored;  // of the last applied step
    std::map<Step, Accumulator> accumulators;
    std::map<Step, Reduction> reductions;    // of sealed steps that are not applied
    std::map<Step, ReducedMessage> reduced;  // likewise; that were acknowledged
    std::optional<SealId> newest_seal;       // no older one is of use
    using Early = std::variant<ShareMessage, ChunkMessage>;
    std::map<SealId, std::vector<std::pair<PeerId, Early>>> early;  // of a seal to come
    PeerRow use;                                                    // of the open step
    std::int64_t queue_samples = 0;
  };
  /// A microbatch that came.
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
    PayloadRef input_gradient;    // likewise, or could not be
    std::int64_t kept_bytes = 0;  // of these, within the memory for them

    bool active() const { return forward_due || awaits_gradient || backward_due; }
    Phase phase() const;
  };
  struct Running {
    std::string what;
    StageId stage;
    double started_s = 0;
    bool void_by_now = false;  // of a history that was left, or of a stage that was
  };
  struct Reading {
    PeerId learner;
    Step step;  // of the state that is read
  };

  Served& served(StageId stage);
  /// Something of it may still be on its way: the tables that follow the change show what is lost.
  bool has_left(StageId stage) const { return !served_.contains(stage); }
  Accumulator& accumulator(StageId stage, Step step);
  bool contributed(const WorkId& work) const;
  void take_on(const WorkId& work, Arrival arrival);
  /// Sees to it that the next stage gets this work's output, or hears where the gradient is wanted.
  void pass_on(const WorkId& id, Work& work);
  void send_output(const WorkId& id, Work& work, const PayloadRef& output);
  void send_back(const WorkId& id, Work& work);
  /// Who sent the input serves the stage before no more.
  bool undeliverable(const WorkId& id, const Work& work) const;
  void await_backward(const WorkId& id, Work& work, const PayloadRef& output_gradient);
  /// Its path names a peer that has died: it waits for another one.
  bool path_broken(const WorkId& id, const Work& work) const;
  bool alive(PeerId peer) const { return view_.members.contains(peer); }
  /// Whether what was sent may be kept, within the memory for it.
  bool keep(Work& work, const PayloadRef& payload);
  /// Drops what is of no use any more.
  void tidy(std::map<WorkId, Work>::iterator place);
  void forget_works(Step committed);
  bool weights_ready(const WorkId& work) const;
  bool may_run_backward(const WorkId& id);
  bool in_last_stage(const WorkId& work) const { return work.stage.value + 1 == plan_.stages(); }
  std::vector<BlockRange> chunks_of(const Served& state, const StageSeal& seal) const;
  void freeze(const SealMessage& message, const StageSeal& seal, Served& state);
  void begin_reduction(Step step, const StageSeal& seal, Served& state);
  Reduction* find_reduction(StageId stage, const SealId& seal);
  /// What a replica that heard of the seal first has sent waits for it here.
  template <class Message>
  void await_seal(const Message& message, PeerId from);
  void acknowledge_if_complete(StageId stage, const Reduction& reduction);
  void acknowledge(ReducedMessage message);
  bool reducing() const;
  static void forget_steps(Step applied, Served& state);
  StageRow stage_row(StageId stage, Step step, const Served& state) const;

  void serve(StageId stage);
  void learn(StageId stage);
  void begin_to_learn(StageId stage, Served& state);
  void learn_from_here();
  void start_loading();
  /// What it held here once is still to be freed.
  bool to_be_dropped(StageId stage) const;
  void drop_others(const std::set<StageId>& stages);
  void fetch(StageId stage, Served& state);
  void tell_learned(StageId stage, const Served& state);
  Step within_reach(const Served& state) const;
  std::optional<Job> next_learning_job();
  std::optional<Job> next_application();

  std::optional<Job> next_job();
  std::optional<Job> next_reduction_job();
  std::optional<Job> next_microbatch_job();
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
  void note_contribution(const BackwardResult& result);
  void note_not_added(const WorkId& id);
  void note_loss(const MicrobatchId& microbatch, double nats);
  void report_forward_done(const WorkId& id, const Work& work, double compute_s);
  /// Sends a boundary's payload, and books it.
  template <class Message>
  void send_boundary(PeerId to, StageId from_stage, const PayloadRef& payload, Message message);

  PeerId self_;
  const RunPlan& plan_;
  Outbox& outbox_;
  View view_;
  double now_s_ = 0;
  Step resumed_from_;
  CommitLog commit_log_;
  std::map<StageId, Served> served_;
  std::map<StageId, std::unique_ptr<Router>> routers_;  // to each next stage

  std::map<WorkId, Work> works_;            // of open steps
  std::set<WorkId> forwards_;               // due
  std::map<WorkId, PayloadRef> backwards_;  // due, with the output's gradient
  std::int64_t kept_bytes_ = 0;
  std::deque<ApplyJob> applications_;
  std::vector<std::pair<PeerId, FetchMessage>> fetches_;  // of learners
  std::optional<Reading> reading_;
  std::vector<bool> updated_;        // tensors of a learner that the running update is of
  std::int64_t loads_ = 0;           // under way; while they are, no job begins
  std::set<StageId> being_written_;  // nothing may be changed in their state
  std::set<StageId> to_load_;
  std::deque<DropJob> drops_;
  std::set<StageId> left_behind_;                         // in a history that was left
  std::optional<std::vector<StoredFile>> restart_files_;  // if all have gone back
  std::optional<Running> running_;
  double idle_s_ = 0;           // since the last report of use
  double communication_s_ = 0;  // of a sealed step, with nothing to compute
  ReportMessage report_;
  std::map<MicrobatchId, double> losses_;                          // of open steps, in nats
  std::map<Step, std::shared_ptr<const StepFacts>> sealed_facts_;  // of open steps
  std::vector<HashFact> hashes_;  // of steps whose rows may not be written
};

}  // namespace swarmpi
