#pragma once
// A peer as leader: it issues microbatches (the source), keeps the ledger, seals complete steps,
// commits what all have reduced, writes down what all have agreed on, asks for checkpoints, and
// ends the run.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "swarm/ledger.hpp"
#include "swarm/outbox.hpp"
#include "swarm/plan.hpp"
#include "swarm/wiring.hpp"

namespace swarmpi {

/// Gradients that stay infinite or NaN will not recover.
inline constexpr std::int64_t kSkipsThatEndTheRun = 3;

class Leader {
 public:
  Leader(PeerId self, const RunPlan& plan, const ResumeState& resume, Term term, View view,
         Outbox& outbox);

  /// The time of what comes next.
  void set_now(double now_s) { now_s_ = now_s; }
  /// Publishes the first view of this term.
  void begin();
  /// Has told everybody to end, and heard from all (or waited long enough).
  bool over() const;
  /// When the last who have not answered are given up; nothing before the end is announced.
  std::optional<double> gives_up_s() const { return gives_up_s_; }
  /// How the run ended. REQUIRES: the end is announced.
  const Status& ending() const { return *ending_; }

  void receive(const ForwardDone& message, PeerId from);
  void receive(const ReportMessage& message, PeerId from);
  void receive(const SealAnswer& message, PeerId from);
  void receive(const ReducedMessage& message, PeerId from);
  void receive(const StageStoredMessage& message, PeerId from);
  void receive(const NoticeMessage& message, PeerId from);
  void receive(const FailureMessage& message, PeerId from);
  void receive(const EndHeard& message, PeerId from);
  /// The run cannot go on without this peer: it ends, and can be resumed.
  void lost(PeerId peer, const std::string& how);
  void durable(const RecordDurable& record);
  void durable(const CheckpointDurable& checkpoint);
  void durable(const CompletionDurable& completion);
  void storage_failed(const StorageFailed& failure);

  /// One round of decisions from what is known: issue, seal, commit, write down, end.
  void lead();
  std::string waiting_for() const;

 private:
  /// A step between its first microbatch and its commit.
  struct OpenStep {
    explicit OpenStep(const RunPlan& plan, Step step) : ledger(plan, step) {}
    Ledger ledger;
    std::int64_t issued = 0;  // training microbatches first, then validation
    std::optional<SealId> seal;
    double sealed_at_s = 0;
    std::map<StageId, std::map<PeerId, bool>> frozen;
    std::map<StageId, std::map<PeerId, std::vector<double>>> reduced;
  };
  /// A committed step whose state hashes are not all known yet.
  struct Unagreed {
    StepRow row;
    double seal_to_commit_s = 0;
    std::map<StageId, std::map<PeerId, std::vector<std::uint64_t>>> hashes;  // of each tensor
    std::vector<PeerRow> uses;
    ResumeState resume;
  };

  void open_steps();
  void issue();
  void seal_complete_steps();
  void commit_reduced_steps();
  void finish_passes();
  void agree_on_hashes();
  void end_when_done();

  void commit(Step step, const OpenStep& open);
  std::shared_ptr<const CommitRecord> decide(Step step, const OpenStep& open) const;
  double gradient_norm(const OpenStep& open) const;
  /// The stage hashes summed, once all replicas of all stages have reported; ends the run where
  /// they differ.
  std::optional<std::uint64_t> agreed_hash(Step step, const Unagreed& unagreed);
  void write_row(const Unagreed& agreed);
  void ask_for_checkpoint(const ResumeState& state);
  /// Names of the tensors of a stage whose hashes are not all equal.
  std::string unequal_tensors(StageId stage,
                              const std::vector<std::vector<std::uint64_t>>& hashes) const;
  /// Which tensors of a stage differ, and who has what. REQUIRES: two replicas differ.
  std::string disagreement(Step step, StageId stage,
                           const std::map<PeerId, std::vector<std::uint64_t>>& by_peer) const;
  void note_validation(Step step, const Ledger& ledger);
  void write_validations();
  void store(decltype(StoreRecord::row) row);
  void event(std::string kind, std::int64_t step, double cost_s, std::string detail);
  void end(ExitStatus code, const std::string& why);
  void send_all(const MessageBody& body);
  /// Peers that serve a stage.
  std::int64_t serving_peers() const;
  template <class Value>
  bool all_replicas(const std::map<StageId, std::map<PeerId, Value>>& answers) const;
  bool stopping() const { return stop_requested_ || resume_.skips_in_a_row >= kSkipsThatEndTheRun; }
  double run_time_s() const { return time_offset_s_ + now_s_; }

  PeerId self_;
  const RunPlan& plan_;
  Outbox& outbox_;
  Term term_;
  View view_;
  std::unique_ptr<Router> router_;  // to stage 0
  ResumeState resume_;              // as of the last committed step
  double time_offset_s_;            // of earlier parts of the run
  double now_s_ = 0;

  std::map<Step, OpenStep> open_;
  Step next_to_open_;
  std::int64_t next_seal_ = 1;
  std::int64_t committed_;
  std::map<Step, Unagreed> unagreed_;
  std::int64_t agreed_;
  std::map<Step, ValidationRow> validations_;  // by the step they rode on, until it is agreed on
  double last_row_s_;

  std::int64_t records_stored_ = 0;
  std::int64_t records_durable_ = 0;
  using StateHashes = std::map<StageId, std::vector<std::uint64_t>>;  // of each tensor
  StateHashes agreed_hashes_;                                         // after step agreed_
  struct PendingCheckpoint {
    ResumeState state;
    StateHashes hashes;  // what the files must hold
    double asked_s = 0;
    std::map<StageId, StoredFile> files;
  };
  std::map<Step, PendingCheckpoint> checkpoints_;
  std::int64_t last_checkpoint_;
  std::optional<std::string> stop_requested_;
  bool completing_ = false;
  std::optional<Status> ending_;
  std::optional<double> gives_up_s_;
  std::set<PeerId> end_unheard_;  // told to end, not answered
};

}  // namespace swarmpi
