#pragma once
// A peer as servant of its stages: works on microbatches, keeps one accumulator a stage and step,
// freezes it for a seal, reduces with the other replicas, applies what is committed. What the
// leader wants to know travels in batched reports.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "swarm/outbox.hpp"
#include "swarm/plan.hpp"
#include "swarm/reduction.hpp"
#include "swarm/wiring.hpp"

namespace swarmpi {

class Server {
 public:
  Server(PeerId self, const RunPlan& plan, const ResumeState& resume, Outbox& outbox);

  /// The time of what comes next; time since the last call is booked.
  void set_now(double now_s);
  /// Serves the stages that the view gives to this peer, from the step after `applied` on.
  void adopt(const View& view);

  void receive(const IssueMessage& message, PeerId from);
  void receive(const ForwardMessage& message, PeerId from);
  void receive(const ForwardDone& message, PeerId from);
  void receive(const BackwardMessage& message, PeerId from);
  void receive(const SealMessage& message, PeerId from);
  void receive(const ShareMessage& message, PeerId from);
  void receive(const ChunkMessage& message, PeerId from);
  void receive(const CommitMessage& message, PeerId from);
  void receive(const CheckpointMessage& message, PeerId from);

  void finished(const JobFinished& job);
  void stored(const StageStored& part);

  /// Starts the next job if none runs: what completes a step first, then backward, then forward;
  /// older steps first.
  void start_job();
  /// Sends the leader what has been noted since the last report.
  void flush_report();
  /// What is being worked on or waited for, for messages about stalls.
  std::string activity() const;

 private:
  struct Accumulator {
    Bitmap microbatches;
    std::optional<SealId> frozen;
  };
  struct Served {
    std::vector<Block> blocks;
    Step applied;          // the last step in the state
    bool storing = false;  // its state is being written: nothing may be applied
    Step asked_to_store;   // the last checkpoint that was asked for
    std::map<Step, Accumulator> accumulators;
    std::optional<SealId> sealed;            // of the last applied step: no older one is of use
    std::map<SealId, Reduction> reductions;  // of sealed steps that are not applied
    std::map<SealId, std::vector<std::pair<PeerId, ShareMessage>>> early_shares;  // seal to come
    PeerRow use;  // of the open step
    std::int64_t queue_samples = 0;
  };
  struct Held {
    PayloadRef input;
    PeerId from;
    double sent_s = 0;     // on the clock of `from`
    double arrived_s = 0;  // on this peer's
    bool backward_begun = false;
  };
  struct Running {
    std::string what;
    StageId stage;
    double started_s = 0;
  };

  Served& served(StageId stage);
  Accumulator& accumulator(const WorkId& work);
  void take_on(const WorkId& work, const Held& held);
  bool weights_ready(const WorkId& work) const;
  bool in_last_stage(const WorkId& work) const { return work.stage.value + 1 == plan_.stages(); }
  void begin_reduction(const SealMessage& seal, StageId stage, Served& state);
  Reduction* find_reduction(StageId stage, const SealId& seal);
  void acknowledge_if_complete(StageId stage, const Reduction& reduction);
  bool reducing() const;

  std::optional<Job> next_job();
  std::optional<Job> next_reduction_job();
  std::optional<Job> next_microbatch_job();
  void handle(const ForwardResult& result, double duration_s);
  void handle(const BackwardResult& result, double duration_s);
  void handle(const ShareResult& result, double duration_s);
  void handle(const ReduceResult& result, double duration_s);
  void handle(const PlaceResult& result, double duration_s);
  void handle(const ApplyResult& result, double duration_s);
  void report_forward_done(const WorkId& work, const Held& held, double compute_s);
  /// Sends a boundary's payload, and books it.
  template <class Message>
  void send_boundary(PeerId to, StageId from_stage, const PayloadRef& payload, Message message);

  PeerId self_;
  const RunPlan& plan_;
  Outbox& outbox_;
  View view_;
  double now_s_ = 0;
  std::map<StageId, Served> served_;
  std::map<StageId, std::unique_ptr<Router>> routers_;  // to each next stage
  Step resumed_from_;
  Step committed_;  // the last commit heard of
  std::map<Step, std::shared_ptr<const Exponents>> exponents_;

  std::map<WorkId, Held> held_;             // inputs, until their own backward pass
  std::map<WorkId, PayloadRef> forwards_;   // ready to run
  std::map<WorkId, PayloadRef> backwards_;  // ready to run, with the output's gradient
  std::deque<ApplyJob> applications_;
  std::optional<Running> running_;
  double idle_s_ = 0;           // since the last report of use
  double communication_s_ = 0;  // of a sealed step, with nothing to compute
  ReportMessage report_;
};

}  // namespace swarmpi
