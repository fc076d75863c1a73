#pragma once
// Whether all replicas of all stages hold the same state after a committed step: each reports the
// hashes of its tensors, and only rows of a step that is agreed on are stored.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/status.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/stage_answers.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {

/// Of each tensor of a stage, in tensor order.
using TensorHashes = std::vector<std::uint64_t>;
using StateHashes = std::map<StageId, TensorHashes>;

/// A committed step on whose state all replicas agree.
struct AgreedStep {
  CommitRef record;
  std::uint64_t state_hash = 0;
  double seal_to_commit_s = 0;
  std::vector<PeerRow> peer_rows;
};

class Agreement {
 public:
  /// `agreed`: the last step that is agreed on already.
  Agreement(const RunPlan& plan, Step agreed) : plan_(&plan), agreed_(agreed) {}

  /// Waits from now on for the hashes of the state after this step, from all replicas.
  void await(const CommitRef& record, double seal_to_commit_s);
  /// What a peer reports about a step that is not awaited changes nothing.
  void enter(const View& view, const HashFact& fact, PeerId from);
  void enter(const UseFact& fact);
  /// What the peer has reported about this stage, or about all, does not count any more.
  void forget(PeerId peer, std::optional<StageId> stage);

  /// The oldest awaited step, once all replicas of all stages have reported equal hashes: from now
  /// on it is agreed on. Nothing while hashes are missing; an error where two differ.
  Result<std::optional<AgreedStep>> decide(const View& view);

  /// Who has not told the state of the awaited step is not waited for any more: it is what those
  /// have told who did. A stage of which nobody did, if there is one, or of which a range is known
  /// to nobody else: then nothing changes.
  std::optional<StageId> leave_out_the_late(const View& view);
  /// Whether the state of each stage of the awaited step was told by those whom it needs, and
  /// whoever has not told it is one of these.
  bool lacks_only(const View& view, const std::set<PeerId>& peers) const;

  /// Who serves the stage and has not told its state after the awaited step.
  std::vector<PeerId> awaited_of(const View& view, StageId stage) const;

  /// The newest step that is agreed on.
  Step agreed() const { return agreed_; }
  /// Whether this peer may hold another state of the stage: it was left out when that step was
  /// agreed on.
  bool left_out(PeerId peer, StageId stage) const { return left_out_.contains({peer, stage}); }
  /// What its state is, as far as it was reported.
  const StateHashes& hashes() const { return hashes_; }
  /// The step that is to be agreed on next.
  std::optional<Step> awaited() const;

  /// Whether counts are what a look at everything gives. For torture.
  bool counts_hold(const View& view) const;

 private:
  struct AwaitedStep {
    AgreedStep step;
    StageAnswers<StateHash> hashes;
    bool without_the_late = false;
  };

  /// The sum of all hashes, once all are here and equal.
  Result<std::optional<std::uint64_t>> state_hash(const View& view, Step step,
                                                  const AwaitedStep& awaited) const;
  /// What all must have alike.
  const TensorHashes& compared(const StateHash& hash) const;
  /// The stage's state, from what its replicas have reported of theirs.
  TensorHashes together(const std::map<PeerId, StateHash>& by_peer) const;
  /// Which tensors of a stage differ, and which peers hold equal states. REQUIRES: two differ.
  Status disagreement(Step step, StageId stage, const std::map<PeerId, StateHash>& by_peer) const;

  const RunPlan* plan_;
  std::map<Step, AwaitedStep> awaited_;
  Step agreed_;
  StateHashes hashes_;                             // after step agreed_
  std::set<std::pair<PeerId, StageId>> left_out_;  // likewise
};

/// Names of the tensors of a stage whose hashes are not all equal, each after a blank.
std::string unequal_tensors(const RunPlan& plan, StageId stage,
                            const std::vector<TensorHashes>& hashes);

}  // namespace swarmpi
