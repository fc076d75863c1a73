#pragma once
// A peer as servant of its stages: works on microbatches, keeps one accumulator a stage and step,
// freezes it for a seal, reduces, applies what is committed. What the leader wants to know travels
// in batched reports.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "swarm/outbox.hpp"
#include "swarm/plan.hpp"

namespace swarmpi {

class Server {
 public:
  Server(PeerId self, const RunPlan& plan, const ResumeState& resume, Outbox& outbox);

  /// Serves the stages that the view gives to this peer, from the step after `applied` on.
  void adopt(const View& view);

  void receive(const IssueMessage& message, PeerId from);
  void receive(const ForwardMessage& message, PeerId from);
  void receive(const BackwardMessage& message, PeerId from);
  void receive(const SealMessage& message, PeerId from);
  void receive(const CommitMessage& message, PeerId from);
  void receive(const CheckpointMessage& message, PeerId from);

  void finished(const JobFinished& job, double now_s);
  void stored(const StageStored& part);

  /// Starts the next job if none runs: what completes a step first, then backward, then forward;
  /// older steps first.
  void start_job(double now_s);
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
    Step applied;          // the last step in the state
    bool storing = false;  // its state is being written: nothing may be applied
    Step asked_to_store;   // the last checkpoint that was asked for
    std::map<Step, Accumulator> accumulators;
    PeerRow use;  // of the open step
    std::int64_t queue_samples = 0;
  };
  struct Held {
    PayloadRef input;
    PeerId from;
    bool backward_begun = false;
  };

  Served& served(StageId stage);
  Accumulator& accumulator(const WorkId& work);
  void take_on(const WorkId& work, PayloadRef input, PeerId from);
  bool weights_ready(const WorkId& work) const;
  bool in_last_stage(const WorkId& work) const { return work.stage.value + 1 == plan_.stages(); }
  std::optional<Job> next_job();
  std::optional<Job> next_microbatch_job();
  void handle(const ForwardResult& result);
  void handle(const BackwardResult& result);
  void handle(const ReduceResult& result);
  void handle(const ApplyResult& result);

  PeerId self_;
  const RunPlan& plan_;
  Outbox& outbox_;
  View view_;
  std::map<StageId, Served> served_;
  Step resumed_from_;
  Step committed_;  // the last commit heard of
  std::map<Step, std::shared_ptr<const Exponents>> exponents_;

  std::map<WorkId, Held> held_;             // inputs, until their own backward pass
  std::map<WorkId, PayloadRef> forwards_;   // ready to run
  std::map<WorkId, PayloadRef> backwards_;  // ready to run, with the output's gradient
  std::deque<ReduceJob> reductions_;
  std::deque<ApplyJob> applications_;
  std::optional<std::string> running_;
  StageId running_stage_;
  double idle_since_s_ = 0;
  double idle_s_ = 0;  // since the last report of use
  ReportMessage report_;
};

}  // namespace swarmpi
