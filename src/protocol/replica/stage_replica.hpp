#pragma once
// One stage at a peer that serves or learns it: the integer sums of each open step, which are
// frozen by a seal, reduced with the other replicas, and applied when the step is committed.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/messages/commit.hpp"
#include "protocol/messages/learning.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/messages/reduction.hpp"
#include "protocol/messages/seal.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/table_rows.hpp"
#include "protocol/messages/tables.hpp"
#include "protocol/reduction/collective_way.hpp"
#include "protocol/reduction/reduction.hpp"
#include "protocol/reduction/weight_gather.hpp"
#include "protocol/replica/learning.hpp"
#include "protocol/run_plan.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

/// What the leader is told of a reduction: it is complete here, or has gone wrong.
using ReductionAnswer = std::variant<ReducedMessage, ChunkRefused>;

/// What the leader is told where a stage cannot be loaded.
using LoadRefusal = std::variant<NoRoomMessage, DamagedMessage>;

class StageReplica {
 public:
  /// Serves the stage as of this step.
  StageReplica(const RunPlan& plan, PeerId self, StageId stage, Step applied);

  // ---- Mode: it is served, being loaded, or learned
  /// Nothing is done with the stage before it is loaded.
  void load() { mode_ = Loading{}; }
  void loaded();
  bool loading() const { return std::holds_alternative<Loading>(mode_); }
  /// It cannot be loaded.
  void refuse_to_load(LoadRefusal why) { mode_ = Loading{std::move(why)}; }
  /// Why it cannot; nothing if it is not known that it cannot.
  std::optional<LoadRefusal> refused_to_load() const {
    const auto* const loading = std::get_if<Loading>(&mode_);
    return loading == nullptr ? std::nullopt : loading->refusal;
  }
  /// Nothing of the state is here: learns it as of this step.
  void learn(Step committed);
  /// Null if it is not learned.
  Learning* learning() { return std::get_if<Learning>(&mode_); }
  const Learning* learning() const { return std::get_if<Learning>(&mode_); }
  /// What was learned is served from now on.
  void serve_learned() { mode_ = Serving{}; }
  /// Whether the memory of the state can be worked on.
  bool ready() const { return !loading() && (learning() == nullptr || learning()->ready()); }

  /// The last step in the state.
  Step applied() const { return applied_; }
  /// The part of a checkpoint that was written of this state.
  const std::optional<StageStored>& stored() const { return stored_; }
  void set_stored(const StageStored& part) { stored_ = part; }

  // ---- Sums
  /// Whether the state has the weights that the step builds on.
  bool weights_ready(Step step) const;
  /// Whether a training microbatch is in the sums of its step.
  bool contributed(const MicrobatchId& id) const;
  /// Whether a backward pass may run: the weights are ready, and the sums take the microbatch, or
  /// need not.
  bool takes(const MicrobatchId& id);
  /// Whether that pass adds to the sums.
  bool adds(const MicrobatchId& id);
  /// The pass has added. Whether what all that is in the sums comes to is another than before.
  bool add(const BackwardResult& result);
  /// It has not. Whether the sums lack the microbatch; while they are settled that is noted
  /// instead, for the case that the stage is reopened.
  bool lacks(const MicrobatchId& id);

  // ---- Seal and reduction
  /// Whether this seal, or a newer one, was heard of.
  bool knows(const SealId& seal) const { return newest_seal_ && seal <= *newest_seal_; }
  /// What the sums hold, if the seal says something else. `learns`: the seal names this peer as a
  /// learner, which has no share.
  std::optional<SealRefused> refusal(const SealMessage& message, const StageSeal& seal,
                                     bool learns);
  /// The sums take nothing more, and are reduced unless the step is skipped. An acknowledgement, if
  /// the whole reduced gradient is here.
  std::optional<ReductionAnswer> freeze(const SealMessage& message, const StageSeal& seal,
                                        const std::shared_ptr<const Exponents>& exponents,
                                        Outbox& outbox);
  /// The last seal is void: the sums take microbatches again. One that was not added, if any.
  std::optional<MicrobatchId> reopen(Step step);
  /// A message of a replica that received the seal first waits for it here.
  void receive(const ShareMessage& message, PeerId from, Outbox& outbox);
  std::optional<ReductionAnswer> receive(const ChunkMessage& message, PeerId from, Outbox& outbox);
  /// The next job of the reduction of the step after the last applied.
  std::optional<Job> next_reduction_job();
  /// An acknowledgement, if the whole reduced gradient is here now.
  template <class Result>
  std::optional<ReductionAnswer> finished(const Result& result, Outbox& outbox);
  /// Sees to the reductions that are open by a collective: `way`, of the present view, is told what
  /// may be entered; of one of another view, or one that is over, no more is taken. It may be null.
  void mind_collective(CollectiveWay* way, Outbox& outbox);
  /// The sums are here. REQUIRES: the result counts.
  std::optional<ReductionAnswer> collective_is_done(const CollectiveDone& done);
  /// Whether any reduction is open and not complete, or weights are gathered.
  bool reducing() const;

  // ---- Update
  /// The next job of a commit's update, whose last is an ApplyJob; nothing while the state is not
  /// ready for it.
  std::optional<Job> update(const CommitRef& record);
  /// Weights that another replica got damaged are copied once more.
  std::optional<Job> next_copy_job();
  void receive(const WeightsMessage& message, PeerId from);
  void receive(const WeightsPlaced& message, PeerId from);
  void finished(const WeightsResult& result, Outbox& outbox);
  /// Errors: failed, where weights have come damaged twice.
  Status finished(const PlaceWeightsResult& result, Outbox& outbox);
  /// The state is that after the step: drops the sums and reduced gradients of applied steps.
  void updated(const ApplyResult& result);

  // ---- What it did for the open step
  PeerRow& use() { return use_; }
  void sample_queue(std::size_t passes_due);
  /// So much work has waited here for so long, in passes times seconds.
  void waited(double pass_s) { waited_s_ += pass_s; }
  /// Since the last view.
  double waited_s() const { return waited_s_; }
  void count_waiting_anew() { waited_s_ = 0; }
  /// What it did since the last call.
  PeerRow take_use(Step step);

  // ---- What others are told
  /// Its rows of steps that are not committed.
  void fill(TableMessage& table, Step committed) const;
  /// Adds the peers from which something must come.
  void add_awaited(FlatSet<PeerId>& peers, Step committed) const;
  /// What its reduction waits for; "" if there is none.
  std::string waiting_for() const;
  /// Whether sums of applied steps are here. For tests.
  bool has_left_over() const;

 private:
  struct Serving {};
  struct Loading {
    std::optional<LoadRefusal> refusal;
  };
  /// The integer sums of a step.
  struct Accumulator {
    Bitmap microbatches;
    std::vector<kernels::Contribution> tensors;  // over these
    bool frozen = false;
    bool settled = false;  // the reduced gradient is known, or not wanted: no more is added
    std::optional<MicrobatchId> not_added;  // a backward pass that added nothing because of that
  };
  using ReductionMessage = std::variant<ShareMessage, ChunkMessage>;

  /// Made, empty, when it is first asked for.
  Accumulator& accumulator(Step step);
  const OwnedChunks& chunks_of(const StageSeal& seal);
  /// Makes the reduction for a seal, with what the last one of its attempt has in place, and gives
  /// it the messages that waited for the seal.
  Reduction& begin_reduction(Step step, const StageSeal& seal,
                             const std::shared_ptr<const Exponents>& exponents, Outbox& outbox);
  /// The reduction under this seal; null if it has not begun, or is closed.
  Reduction* find_reduction(const SealId& seal);
  template <class Message>
  void await_seal(const Message& message, PeerId from);
  /// Whether a chunk was miscounted; else an acknowledgement, when all chunks are in place.
  std::optional<ReductionAnswer> answer_of(Reduction& reduction);
  ReducedMessage acknowledge(ReducedMessage message);
  /// Begins to gather the weights of a commit, with those that have come before it.
  void begin_gather(const CommitRef& record);
  void forget_steps();
  /// The step up to which this peer can apply updates with the reduced gradients that are here.
  Step reachable_step() const;
  StageRow row(Step step, const Accumulator& own) const;

  const RunPlan& plan_;
  PeerId self_;
  StageId stage_;
  std::shared_ptr<const std::vector<Block>> blocks_;
  std::optional<std::pair<std::int64_t, OwnedChunks>> cut_;  // of these, for so many replicas
  std::variant<Serving, Loading, Learning> mode_;
  Step applied_;
  std::optional<StageStored> stored_;
  std::map<Step, Accumulator> accumulators_;
  std::map<Step, Reduction> reductions_;    // of sealed steps that are not applied
  std::map<Step, ReducedMessage> reduced_;  // likewise; that were acknowledged
  std::optional<WeightGather> gather_;      // of the last commit that it was begun for
  std::vector<std::pair<PeerId, WeightsMessage>> early_weights_;  // of a commit not heard of yet
  std::optional<SealId> newest_seal_;  // messages under older ones are ignored
  std::map<SealId, std::vector<std::pair<PeerId, ReductionMessage>>> awaiting_seal_;
  PeerRow use_;  // of the open step
  std::int64_t queue_samples_ = 0;
  double waited_s_ = 0;
};

}  // namespace swarmpi
