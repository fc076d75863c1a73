#pragma once
// Every message of the protocol with its fields: who sends it to whom, when, and what the receiver
// does. Below "host" stands for the ReplicaHost of a peer. The protocol never looks into payloads.
// docs/protocol.md tells in which order they come.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/cover.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/records.hpp"
#include "core/shared_doubles.hpp"
#include "core/status.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/membership/view_delta.hpp"
#include "protocol/messages/bitmap.hpp"
#include "protocol/messages/message_traits.hpp"
#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

/// Bytes of a payload; 0 where there is none.
inline std::int64_t size_of(const PayloadRef& payload) {
  return payload ? static_cast<std::int64_t>(payload->size_bytes()) : 0;
}

// ---- Views and succession

/// A checkpoint that all go back to when a stage was lost.
struct RestartPoint {
  ResumeState state;
  std::vector<StoredFile> files;  // none before any step
};
SWARMPI_FIELDS(RestartPoint, state, files);

/// Leader to all, whenever it changes who serves, learns or leaves what. The receiver adopts the
/// view, and answers with its table where deaths are repaired. A peer that is not in it ends.
struct ViewMessage {
  /// On the wire it is left out where there is a delta; peers of one process share it.
  ViewRef view = no_view();
  /// A stage was lost with its last replica: all go back to this, under its incarnation.
  std::shared_ptr<const RestartPoint> restart = nullptr;
  /// What has changed since the view before, to a peer that was sent that under the same term and
  /// incarnation; null to all others. A receiver without that view asks for the whole one.
  std::shared_ptr<const ViewDelta> delta = nullptr;

  const ViewNumber& number() const { return delta ? delta->number : view->number; }
};
SWARMPI_FIELDS(ViewMessage, view, restart, delta);

/// To a leader whose view came as a delta of one that is not here: send the whole view. Until it
/// comes, all that was sent in it waits.
struct WholeViewRequest {};
SWARMPI_FIELDS(WholeViewRequest);

/// A new leader to all, before it leads. The receiver answers with the newest view that it has
/// adopted, and promises to adopt no view of an earlier term any more.
struct InquiryMessage {
  Term term;
};
SWARMPI_FIELDS(InquiryMessage, term);
/// Answer to an inquiry. The new leader begins with the newest view of all answers.
struct InquiryAnswer {
  Term term;
  ViewRef view = no_view();  // the newest that was adopted, or no_view()
  std::shared_ptr<const RestartPoint> restart;
};
SWARMPI_FIELDS(InquiryAnswer, term, view, restart);

/// Newcomer to all that it knows, again and again until a view comes; a peer that does not lead
/// passes it on to the leader, which adds the newcomer to the view.
struct JoinMessage {
  PeerId peer;
  std::optional<std::int64_t> budget_bytes = {};  ///< that it may take; none: no bound
};
SWARMPI_FIELDS(JoinMessage, peer, budget_bytes);

// ---- Microbatches

/// The path of a microbatch that is repaired: which peers hold it in the stages to come, and how
/// far it has to go. It is followed as long as all of them serve their stages.
struct Path {
  ViewNumber planned_in;  // of two paths the later counts
  std::map<StageId, PeerId> holders;
  StageId last;  // the holder of the stage behind it has the gradient that is missing, or will

  bool operator==(const Path&) const = default;
};
SWARMPI_FIELDS(Path, planned_in, holders, last);
/// Null where the routers choose.
using PathRef = std::shared_ptr<const Path>;

/// Source to a replica of stage 0: work on this microbatch.
struct IssueMessage {
  MicrobatchId microbatch;
  PathRef path;
};
SWARMPI_FIELDS(IssueMessage, microbatch, path);

/// Host to a replica of the next stage, when a forward pass is done: work on these activations.
struct ForwardMessage {
  WorkId work;
  PayloadRef activations;  // (B, T, C)
  PathRef path;
};
SWARMPI_FIELDS(ForwardMessage, work, activations, path);

/// Host to the peer that chose it for a microbatch in this stage, when the job is done: how long it
/// took. Feeds the chooser's router.
struct ForwardDone {
  StageId stage;
  double compute_s = 0;
};
SWARMPI_FIELDS(ForwardDone, stage, compute_s);

/// Host to the peer that sent the activations, when a backward pass is done: their gradient, with
/// which the receiver makes its own backward pass.
struct BackwardMessage {
  WorkId work;
  PayloadRef gradient;  // (B, T, C)
};
SWARMPI_FIELDS(BackwardMessage, work, gradient);

// ---- Microbatches that are repaired after a death

/// Leader to a host: what this work led to is lost; send its output again, along this path.
struct ResendMessage {
  WorkId work;
  PathRef path;
};
SWARMPI_FIELDS(ResendMessage, work, path);
/// Host at the end of a path to the holder behind it, which has the work already: the gradient of
/// its input shall go to the sender, not to the dead.
struct RedirectMessage {
  WorkId work;
};
SWARMPI_FIELDS(RedirectMessage, work);
/// Host to leader: what a repair of this microbatch counted on is not here, or it is needed once
/// more. The leader asks for tables and plans again.
struct UnableMessage {
  MicrobatchId microbatch;
};
SWARMPI_FIELDS(UnableMessage, microbatch);

// ---- Reports

SWARMPI_FIELDS(kernels::Contribution, exponent, nonfinite, overflow);

/// A peer's contribution to one (step, stage, microbatch).
struct ContributionFact {
  WorkId work;
  // Of the stage, in tensor order. Empty if this microbatch raises no maximum and no flag of the
  // peer's sums: the leader has heard of these, or has them from the peer's table (StageRow).
  std::vector<kernels::Contribution> tensors;
};
SWARMPI_FIELDS(ContributionFact, work, tensors);
/// The loss of a microbatch, known in the last stage.
struct LossFact {
  MicrobatchId microbatch;
  double nats = 0;  // sum over its tokens
};
SWARMPI_FIELDS(LossFact, microbatch, nats);
/// The state of a stage, as one replica has it: hashes in tensor order.
struct StateHash {
  /// Of weights and moments; where each replica owns a range, of that range: those of all replicas
  /// add up to what one that has all would say.
  std::vector<std::uint64_t> tensors;
  /// Of all weights, where each replica owns a range: all have the same. Else empty.
  std::vector<std::uint64_t> weights;

  bool operator==(const StateHash&) const = default;
};
SWARMPI_FIELDS(StateHash, tensors, weights);
/// The state of a stage after a step.
struct HashFact {
  Step step;
  StageId stage;
  StateHash hash;
};
SWARMPI_FIELDS(HashFact, step, stage, hash);
/// What a peer did for a stage in a step.
struct UseFact {
  PeerRow row;
};
SWARMPI_FIELDS(UseFact, row);

/// How much work has waited at a peer for a stage, for Algorithm 2.
struct LoadFact {
  ViewNumber view;  // counted since the peer adopted it
  StageId stage;
  double waited_s = 0;  // over all passes, the time that each was due and not begun
};
SWARMPI_FIELDS(LoadFact, view, stage, waited_s);

/// Host to leader: what was noted since the last. The leader's ledger counts it.
struct ReportMessage {
  std::vector<ContributionFact> contributions;
  std::vector<LossFact> losses;
  std::vector<HashFact> hashes;
  std::vector<UseFact> uses;
  std::vector<LoadFact> loads;      // ride along: no report is sent for them alone
  std::vector<GoodputRow> goodput;  // likewise

  bool empty() const {
    return contributions.empty() && losses.empty() && hashes.empty() && uses.empty();
  }
};
SWARMPI_FIELDS(ReportMessage, contributions, losses, hashes, uses, loads, goodput);

// ---- Seal and reduction

/// What the microbatches of a step come to, beside their gradients.
struct StepFacts {
  double loss_nats = 0;               // summed in index order
  double validation_nats = 0;         // likewise, of the validation that rides on the step
  Exponents measured;                 // e of each tensor, the largest over the microbatches
  std::vector<std::int32_t> flagged;  // tensors whose gradient was infinite, NaN or too large

  bool operator==(const StepFacts&) const = default;
};
SWARMPI_FIELDS(StepFacts, loss_nats, validation_nats, measured, flagged);

/// The receiver sends a chunk of the reduced gradient that was finished under an earlier seal.
struct ChunkOrder {
  std::int32_t chunk = 0;
  std::vector<PeerId> to;  // lack it
};
SWARMPI_FIELDS(ChunkOrder, chunk, to);
/// How one stage is sealed, for one of its replicas or learners. Of the others' shares it need not
/// know. The lists are those of the view that was sealed, which may not be the receiver's newest.
struct StageSeal {
  StageId stage;
  SealId seal;
  std::vector<PeerId> replicas;     // by id
  std::vector<PeerId> learners;     // get the reduced gradient too
  Bitmap microbatches;              // the receiver's share; only unfinished chunks need it
  std::int64_t chunk_replicas = 0;  // replicas that the chunks were cut for
  /// The stage's chunks that were finished under earlier seals, whoever lacks them: they are facts,
  /// and nobody sums them again. Of size 0 where there are none.
  Bitmap finished_chunks;
  std::vector<ChunkOrder> to_send;  // of these, by chunk
  std::vector<PeerId> senders;      // who send the receiver those that it lacks
  /// How often the stage's sums were reduced before, and what came out is not trusted: no chunk of
  /// that counts.
  std::int64_t attempt = 0;
  /// The replicas add up by the collective that they have made in this view. Nothing: point to
  /// point. It never changes under one seal; learners get chunks point to point in any case.
  std::optional<ViewNumber> collective = {};
};
SWARMPI_FIELDS(StageSeal, stage, seal, replicas, learners, microbatches, chunk_replicas,
               finished_chunks, to_send, senders, attempt, collective);
/// Leader to all who serve or learn, when a step is complete, or a stage is sealed anew. A replica
/// whose accumulator holds exactly its share freezes it, and the stage is reduced; else it answers
/// SealRefused. The facts go to all of them: whoever is left can tell a new leader.
struct SealMessage {
  Step step;
  std::vector<StageSeal> stages;  // of the receiver's, those that are sealed, or sealed anew
  bool skipped = false;           // step 0, or a flag was raised: nothing will be reduced
  std::shared_ptr<const StepFacts> facts;
};
SWARMPI_FIELDS(SealMessage, step, stages, skipped, facts);
/// Leader to the replicas of a stage, when a death or a departure voids its last seal: accumulators
/// take microbatches again, and the reduction under that seal is closed.
struct ReopenMessage {
  Step step;
  StageId stage;
};
SWARMPI_FIELDS(ReopenMessage, step, stage);

/// Host to leader: its accumulator holds something else than was sealed. The leader ends the run.
struct SealRefused {
  SealId seal;
  Step step;
  StageId stage;
  Bitmap carried;  // what the accumulator holds
};
SWARMPI_FIELDS(SealRefused, seal, step, stage, carried);

/// Between replicas of a sealed stage: the sender's sums of a chunk, or those of several replicas.
/// The receiver adds its own, and rounds or passes on.
struct ShareMessage {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  Cover cover;      // of the sums
  PayloadRef sums;  // packed integers
};
SWARMPI_FIELDS(ShareMessage, seal, stage, chunk, cover, sums);
/// Replica to replicas and learners of a sealed stage: a chunk of the reduced gradient, made of
/// the exact sum of all M. The receiver puts it in its place; round a ring it passes it on.
struct ChunkMessage {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  Cover cover;             // of the sums that were rounded
  SharedDoubles squares;   // one a block of the chunk
  std::uint64_t hash = 0;  // of the gradient
  PayloadRef gradient;     // fp32, the chunk's blocks one after another; null where it stays with
                           // its owner
};
SWARMPI_FIELDS(ChunkMessage, seal, stage, chunk, cover, squares, hash, gradient);
/// Host to leader: a chunk is not finished here, because its sums are not over all microbatches of
/// the step, each once, or what came is not what was sent. The leader voids the seal, and the stage
/// is reduced once more.
struct ChunkRefused {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  Cover cover;  // a full one: the chunk was damaged
};
SWARMPI_FIELDS(ChunkRefused, seal, step, stage, chunk, cover);

// ---- Collectives: a quick way to reduce while nothing goes wrong (reduction/collective_way.hpp)

/// The first replica of a stage to the others: with this they make their collective of this view.
struct CollectiveIdMessage {
  StageId stage;
  ViewNumber view;
  std::string id;  // bytes, for the library only
};
SWARMPI_FIELDS(CollectiveIdMessage, stage, view, id);
/// What a replica has to say of its collective.
enum class CollectiveNews : std::uint8_t {
  ready,   // is made: a seal may name it
  frozen,  // for this seal: its sums may be entered
  over,    // nothing comes of it in this view any more; with a seal: nor of what that asked of it
};
constexpr CollectiveNews last_of(CollectiveNews) { return CollectiveNews::over; }
/// Replica to leader. With `ready` of all replicas the leader may seal the stage for a collective,
/// with `frozen` of all it lets them enter, and at the first `over` it voids the seal: the sums,
/// which all still have, are reduced point to point.
struct CollectiveWord {
  ViewNumber view;  // that it was made in; the leader hears of its own view only
  StageId stage;
  CollectiveNews news = CollectiveNews::ready;
  Step step;    // that is sealed; unless `ready`
  SealId seal;  // likewise
  std::string why;
};
SWARMPI_FIELDS(CollectiveWord, view, stage, news, step, seal, why);
/// Leader to the replicas of a stage that is sealed for a collective, when all have frozen: enter.
struct EnterMessage {
  StageId stage;
  SealId seal;
};
SWARMPI_FIELDS(EnterMessage, stage, seal);

/// What a peer holds of a stage's reduced gradient, to be compared with what the others hold.
struct GradientFacts {
  std::vector<double> squares;  // one a tensor of the stage; empty where skipped
  std::uint64_t hash = 0;       // over all chunks; 0: it had nobody to pass it on to
  /// Of each chunk, where the stage is not reduced for the first time: they tell which one differs.
  std::vector<std::uint64_t> chunk_hashes;

  bool operator==(const GradientFacts&) const = default;
};
SWARMPI_FIELDS(GradientFacts, squares, hash, chunk_hashes);
/// Host to leader: it holds the whole reduced gradient of the stage, whatever seals that took. With
/// those of all replicas and learners, and if they agree, the leader commits.
struct ReducedMessage {
  Step step;
  StageId stage;
  std::int64_t attempt = 0;  // as in the seal
  GradientFacts gradient;
};
SWARMPI_FIELDS(ReducedMessage, step, stage, attempt, gradient);

// ---- Commit

/// All that a peer needs to apply a step, the same bits for everyone.
struct CommitRecord {
  Step step;
  Term term;                      // of the leader that decided
  double time_s = 0;              // since the run's first start
  std::uint64_t hash_before = 0;  // of the state after the step before, as all have agreed
  double loss = 0;                // mean nats per token, summed in index order
  double validation_loss = 0;     // likewise, of the validation that rode on the step
  std::int64_t tokens = 0;
  double grad_norm = 0;  // NaN where skipped
  float clip = 1;
  float lr = 0;
  float correction1 = 1;  // 1 - beta1^t
  float correction2 = 1;
  bool skipped = false;
  std::int64_t applied_updates = 0;  // this one included
  std::int64_t skips_in_a_row = 0;
  Exponents next_exponents;                  // E(step + d)
  std::vector<Exponents> exponents_between;  // E(step + 1) ... E(step + d - 1)
};
SWARMPI_FIELDS(CommitRecord, step, term, time_s, hash_before, loss, validation_loss, tokens,
               grad_norm, clip, lr, correction1, correction2, skipped, applied_updates,
               skips_in_a_row, next_exponents, exponents_between);
using CommitRef = std::shared_ptr<const CommitRecord>;

/// Leader to all, when a step is decided; again after a succession, and to newcomers. The receiver
/// applies the update and forgets the step's microbatches.
struct CommitMessage {
  CommitRef record;
  Step written;       // rows up to this step are durable: what they were made from is not needed
  Step checkpointed;  // the newest checkpoint that is durable
};
SWARMPI_FIELDS(CommitMessage, record, written, checkpointed);

// ---- Weights, where each replica owns a range of its stage (method "zero_offload")

/// Owner to the other replicas of its stage, after the commit: a chunk's weights after `step`. The
/// receiver puts them in their place. No pass of the next step begins before all are there.
struct WeightsMessage {
  StageId stage;
  Step step;
  std::int32_t chunk = 0;
  std::uint64_t hash = 0;  // of the weights
  PayloadRef weights;      // fp32, the chunk's blocks one after another
};
SWARMPI_FIELDS(WeightsMessage, stage, step, chunk, hash, weights);
/// Answer to the owner: they are in their place, or what came is not what was sent, and is to be
/// sent once more.
struct WeightsPlaced {
  StageId stage;
  Step step;
  std::int32_t chunk = 0;
  bool intact = true;
};
SWARMPI_FIELDS(WeightsPlaced, stage, step, chunk, intact);

// ---- Learning a stage

/// Learner to a replica: send the state of these blocks, as of this step or a later one.
struct FetchMessage {
  StageId stage;
  BlockRange blocks;
  Step at_least;
};
SWARMPI_FIELDS(FetchMessage, stage, blocks, at_least);
/// Answer to a fetch: a piece of the state, as of `step`. The learner writes it, and brings it up
/// to date with the updates that it has kept since.
struct PieceMessage {
  StageId stage;
  BlockRange blocks;
  Step step;
  std::uint64_t hash = 0;  // of what was read
  PayloadRef state;        // all versions of the weights, and the moments
};
SWARMPI_FIELDS(PieceMessage, stage, blocks, step, hash, state);
/// Replica to learners, after each LAMB update: the trust ratio of each tensor. Who has only pieces
/// of a tensor cannot know it.
struct RatiosMessage {
  StageId stage;
  Step step;
  std::vector<float> ratios;  // in tensor order
};
SWARMPI_FIELDS(RatiosMessage, stage, step, ratios);
/// Learner to leader, when the whole state of the stage is here, and after each update then. The
/// leader makes it a replica if its hashes are those that all agreed on.
struct LearnedMessage {
  StageId stage;
  Step step;
  std::vector<std::uint64_t> tensors;  // hash of each, in tensor order; empty: not applied yet
};
SWARMPI_FIELDS(LearnedMessage, stage, step, tensors);

/// Peer to leader, again in each view: there is no memory left for this stage, which it is to
/// learn or to load. The leader lowers its budget, and gives the stage to another.
struct NoRoomMessage {
  StageId stage;
};
SWARMPI_FIELDS(NoRoomMessage, stage);

/// Peer to leader, again in each view: the stage, which it is to load, cannot be had from the
/// checkpoint that all went back to in this incarnation, for that is damaged. All go back once
/// more.
struct DamagedMessage {
  StageId stage;
  Incarnation incarnation;
  std::string why;  // with the checkpoint's path
};
SWARMPI_FIELDS(DamagedMessage, stage, incarnation, why);

// ---- Checkpoints

/// Leader to one replica of each stage, or to all where each owns a range, when a checkpoint is
/// due: write your state as of `step`.
struct CheckpointMessage {
  Step step;
  StageId stage;
};
SWARMPI_FIELDS(CheckpointMessage, step, stage);
/// Host to leader: the stage's part is durable, or cannot be written any more. With the parts of
/// all stages the leader writes the manifest.
struct StageStoredMessage {
  Step step;
  StageId stage;
  bool stored = false;
  StoredFile file;
  std::vector<std::uint64_t> tensor_hashes;  // of what was written, in tensor order
  std::string why_not;  // its storage hangs; "" where it is not stored: the state has moved on
};
SWARMPI_FIELDS(StageStoredMessage, step, stage, stored, file, tensor_hashes, why_not);

// ---- Silence, death and failure

/// Leader to each other member and back, every `swarm.heartbeat_s`, and at once in answer to a
/// ping: a sign of life of the event loop, which says how far it is and whom it hears.
struct HeartbeatMessage {
  double answers_s = -1;       ///< the time in the ping that it answers; negative: none
  std::int64_t handled = 0;    ///< events of its sender so far, but for the timer
  double oldest_waits_s = 0;   ///< the age of the oldest that its threads have left for it
  double you_silent_s = 0;     ///< for how long it has not heard its receiver, if it listens for it
  PeerId leader = PeerId(-1);  ///< whom it listens to as the leader; -1: nobody
  double leader_silent_s = 0;  ///< for how long it has not heard that one
};
SWARMPI_FIELDS(HeartbeatMessage, answers_s, handled, oldest_waits_s, you_silent_s, leader,
               leader_silent_s);
/// To a peer that is silent and from which something is awaited, or of which it must be known
/// whether it lives: it answers with a heartbeat, which may overtake.
struct PingMessage {
  double sent_s = 0;        // on the sender's clock; comes back
  bool wants_pong = false;  // too, behind all that was sent before
};
SWARMPI_FIELDS(PingMessage, sent_s, wants_pong);
/// Answer to a ping: the peer lives, the link carries, and all that was sent before has arrived.
struct PongMessage {
  double sent_s = 0;
};
SWARMPI_FIELDS(PongMessage, sent_s);
/// Peer to leader: this peer does not answer the sender. The leader, if it hears both, takes the
/// link between them as cut and has one of them killed.
struct SuspectMessage {
  PeerId peer;
};
SWARMPI_FIELDS(SuspectMessage, peer);
/// To a peer that asks something although it is known to be dead here: the others have continued
/// without it. It ends itself.
struct FencedMessage {};
SWARMPI_FIELDS(FencedMessage);
/// Peer to the leader, or to the next one: this peer is dead, as the sender sees it. From a peer
/// that departs to all: this peer is the sender, and sends nothing after it.
struct LostMessage {
  PeerId peer;
  bool left = false;  ///< it departed in good order
  std::string why;    ///< of a peer that gives itself up, for people
};
SWARMPI_FIELDS(LostMessage, peer, left, why);
/// Peer to leader: it cannot continue, and why. The leader ends the run with this status.
struct FailureMessage {
  ExitStatus code = ExitStatus::no;
  std::string why;
};
SWARMPI_FIELDS(FailureMessage, code, why);

// ---- Work that hangs

/// What a peer does beside handling events, and what may hang while it goes on to answer others.
/// `load`: its stages, where all have gone back to a checkpoint; until then it can do no job.
enum class Task : std::uint8_t { job, storage, load };
constexpr Task last_of(Task) { return Task::load; }

/// Peer to leader, again in each view: a job of the sender is late, or a call of its storage, or
/// of its loading, does not return; or it goes on after all. The leader records it, and finds out
/// who can help.
struct LateMessage {
  Task task = Task::job;
  bool late = false;  ///< false: it goes on
  std::string what;   ///< for people
  double since_s = 0;
};
SWARMPI_FIELDS(LateMessage, task, late, what, since_s);
/// Leader to a peer that might do the work of one whose job or storage hangs: do a small piece of
/// such work, and answer when it is done.
struct TryMessage {
  std::int64_t number = 0;
  Task task = Task::job;
};
SWARMPI_FIELDS(TryMessage, number, task);
/// Answer to that.
struct TriedMessage {
  std::int64_t number = 0;
};
SWARMPI_FIELDS(TriedMessage, number);
/// Leader to a peer whose job is late, or that cannot load its stages, when others have shown that
/// they can do its work: it tells all that it is gone, and ends, unless it has gone on meanwhile.
struct ResignMessage {
  std::string why;
};
SWARMPI_FIELDS(ResignMessage, why);
/// From a peer whose storage hangs to all others: it leads no more. It goes on to serve its stages;
/// the first in line leads. Without a reason: from a peer that tells the order on, since whoever
/// led, or told it, has died.
struct AbstainMessage {
  std::string why;
  LeadingOrder order;  // first in it: a peer that has shown that it can store, if one has
};
SWARMPI_FIELDS(AbstainMessage, why, order);
/// From a peer that abstains to the leader, again in each view: its storage works, it may lead.
/// The leader's next view says so.
struct AbleMessage {
  std::int64_t number = 0;  // its own in the order, as it knows it
};
SWARMPI_FIELDS(AbleMessage, number);

// ---- Leaving, and the end of the run

/// Peer to leader, again in each view: it was asked to stop (a signal, a preemption notice).
/// From all members it means the run, which stops; from fewer, that these leave.
struct NoticeMessage {
  std::string why;
};
SWARMPI_FIELDS(NoticeMessage, why);
/// Leader to a peer that leaves, when nothing of it is needed any more: it announces its departure
/// and ends.
struct ReleaseMessage {};
SWARMPI_FIELDS(ReleaseMessage);

/// Leader to all, when the mark of the end is durable: the run is over, with this status. The
/// receiver answers EndHeard, and stays until all have heard it.
struct EndMessage {
  ExitStatus code = ExitStatus::good;
  std::string why;
};
SWARMPI_FIELDS(EndMessage, code, why);
inline Status status_of(const EndMessage& end) {
  return end.code == ExitStatus::good ? Status() : Status::error(end.code, end.why);
}
/// Peer to leader: it has heard the end.
struct EndHeard {};
SWARMPI_FIELDS(EndHeard);
/// Leader to all, when everybody has heard the end: finish.
struct ExitMessage {};
SWARMPI_FIELDS(ExitMessage);

// ---- Tables

/// What a peer has still to do with a microbatch in one stage.
enum class Phase : std::uint8_t {
  to_forward,   // its forward pass is due, or runs
  passed_on,    // the next stage has the output: the gradient is waited for
  to_backward,  // its backward pass is due, or runs
  over,         // only what was sent is kept
};
constexpr Phase last_of(Phase) { return Phase::over; }
/// What a peer has of a microbatch in one stage.
struct WorkRow {
  WorkId work;
  Phase phase = Phase::to_forward;
  std::optional<PeerId> sent_to;         // of the output
  std::optional<ViewNumber> planned_in;  // its path, if it is repaired
  StageId last;                          // likewise
  bool path_broken = false;              // its path names a dead peer: waits for another one
  bool keeps_output = false;
  bool gives_gradient = false;  // has the input's gradient, or will
};
SWARMPI_FIELDS(WorkRow, work, phase, sent_to, planned_in, last, path_broken, keeps_output,
               gives_gradient);
/// What a peer has of an open step in one stage.
struct StageRow {
  Step step;
  StageId stage;
  Bitmap contributed;
  std::vector<kernels::Contribution> tensors;  // over these microbatches, in tensor order
  std::int64_t chunk_replicas = 0;             // replicas that the chunks are cut for; 0: not yet
  std::vector<std::int32_t> chunks;            // of the reduced gradient that are in place
  std::int64_t attempt = 0;                    // at which they were made
};
SWARMPI_FIELDS(StageRow, step, stage, contributed, tensors, chunk_replicas, chunks, attempt);
/// What was sealed with a step.
struct FactsRow {
  Step step;
  std::shared_ptr<const StepFacts> facts;
};
SWARMPI_FIELDS(FactsRow, step, facts);
/// All to leader, in answer to each view where deaths are repaired: what the peer holds now. With
/// the tables of all members the leader plans the repair; a new leader learns from them.
struct TableMessage {
  ViewNumber view;
  Incarnation incarnation;
  std::vector<CommitRef> commits;  // whose rows may not be durable, and the last one
  Step written, checkpointed;      // as last heard
  std::vector<HashFact> hashes;    // of these
  std::vector<LossFact> losses;    // of open steps
  std::vector<FactsRow> facts;
  std::vector<StageRow> stages;
  std::vector<WorkRow> works;
  std::vector<ReducedMessage> reduced;
  std::vector<LearnedMessage> learned;
  std::optional<EndMessage> end;    // that was heard
  std::vector<GoodputRow> goodput;  // which may not be durable
  double untold_s = 0;              // how much of the peer's life no such row has told yet
};
SWARMPI_FIELDS(TableMessage, view, incarnation, commits, written, checkpointed, hashes, losses,
               facts, stages, works, reduced, learned, end, goodput, untold_s);

/// One row for each kind of message: its class, who handles it, when it is heard, how often it
/// comes, and whether soon after a death. Their order is that of the messages' numbers on the wire.
inline constexpr auto kMessageTable = [] {
  using enum MessageClass;
  using enum Audience;
  using enum Hearing;
  using enum Frequency;
  constexpr bool kAfterDeaths = true;
  return MessageTable(
      MessageRow<ViewMessage>(other, peer, in_any_view, rare, kAfterDeaths),
      MessageRow<InquiryMessage>(other, peer, in_any_view, rare),
      MessageRow<InquiryAnswer>(other, peer, in_any_view, rare),
      MessageRow<IssueMessage>(wiring, host, of_its_term, by_microbatch, kAfterDeaths),
      MessageRow<ForwardMessage>(boundary, host, in_its_view, by_microbatch, kAfterDeaths),
      MessageRow<ResendMessage>(other, host, of_its_term, rare, kAfterDeaths),
      MessageRow<RedirectMessage>(other, host, in_its_view, rare, kAfterDeaths),
      MessageRow<UnableMessage>(other, leader, in_its_view, rare, kAfterDeaths),
      MessageRow<ForwardDone>(wiring, peer, in_its_view, by_microbatch),
      MessageRow<BackwardMessage>(boundary, host, in_its_view, by_microbatch, kAfterDeaths),
      MessageRow<ReportMessage>(report, leader, in_its_view, by_microbatch, kAfterDeaths),
      MessageRow<SealMessage>(commit, host, of_its_term, by_step, kAfterDeaths),
      MessageRow<ReopenMessage>(commit, host, of_its_term, rare, kAfterDeaths),
      MessageRow<SealRefused>(commit, leader, in_its_view, never),
      MessageRow<ShareMessage>(reduction, host, in_its_view, by_step, kAfterDeaths),
      MessageRow<ChunkMessage>(reduction, host, in_its_view, by_step, kAfterDeaths),
      MessageRow<ChunkRefused>(reduction, leader, in_its_view, never),
      MessageRow<ReducedMessage>(commit, leader, in_its_view, by_step, kAfterDeaths),
      MessageRow<CommitMessage>(commit, host, of_its_term, by_step, kAfterDeaths),
      MessageRow<TableMessage>(other, leader, in_any_view, rare, kAfterDeaths),
      MessageRow<FetchMessage>(other, host, in_its_view, rare),
      MessageRow<PieceMessage>(other, host, in_its_view, rare),
      MessageRow<LearnedMessage>(other, leader, in_its_view, rare),
      MessageRow<JoinMessage>(other, peer, in_any_view, rare),
      MessageRow<CheckpointMessage>(other, host, of_its_term, rare),
      MessageRow<StageStoredMessage>(other, leader, in_its_view, rare),
      MessageRow<NoticeMessage>(other, leader, in_its_view, rare),
      MessageRow<FailureMessage>(other, leader, in_its_view, rare),
      MessageRow<LostMessage>(other, peer, in_any_view, rare, kAfterDeaths),
      MessageRow<HeartbeatMessage>(heartbeat, peer, in_its_view, rare),
      MessageRow<PingMessage>(heartbeat, peer, even_suspended, rare, kAfterDeaths),
      MessageRow<PongMessage>(heartbeat, peer, even_suspended, rare, kAfterDeaths),
      MessageRow<SuspectMessage>(other, peer, in_its_view, rare, kAfterDeaths),
      MessageRow<FencedMessage>(other, peer, even_suspended, rare, kAfterDeaths),
      MessageRow<LateMessage>(other, leader, in_its_view, rare),
      MessageRow<TryMessage>(other, peer, of_its_term, rare),
      MessageRow<TriedMessage>(other, leader, in_its_view, rare),
      MessageRow<ResignMessage>(other, peer, of_its_term, rare),
      MessageRow<AbstainMessage>(other, peer, in_any_view, rare, kAfterDeaths),
      MessageRow<ReleaseMessage>(other, peer, in_any_view, rare),
      MessageRow<EndMessage>(other, peer, in_any_view, rare),
      MessageRow<EndHeard>(other, leader, in_its_view, rare),
      MessageRow<ExitMessage>(other, peer, in_any_view, rare),
      MessageRow<AbleMessage>(other, leader, in_any_view, rare),
      MessageRow<RatiosMessage>(other, host, in_its_view, rare),
      MessageRow<NoRoomMessage>(other, leader, in_its_view, never),
      MessageRow<DamagedMessage>(other, leader, in_its_view, never),
      MessageRow<WeightsMessage>(reduction, host, in_its_view, by_step),
      MessageRow<WeightsPlaced>(reduction, host, in_its_view, by_step),
      MessageRow<WholeViewRequest>(other, leader, in_any_view, never),
      MessageRow<CollectiveIdMessage>(reduction, host, in_its_view, rare),
      MessageRow<CollectiveWord>(reduction, leader, in_its_view, by_step),
      MessageRow<EnterMessage>(reduction, host, of_its_term, by_step));
}();

/// Any message of the table. A class, so that its special members are compiled once (messages.cpp):
/// those of a plain variant of fifty kinds take seconds in each source that sends or keeps one.
class MessageBody : public decltype(kMessageTable)::Body {
 public:
  using Variant = decltype(kMessageTable)::Body;

  MessageBody();
  template <class Body>
  requires(decltype(kMessageTable)::has<Body>()) MessageBody(Body body)
      : Variant(std::in_place_type<Body>, std::move(body)) {}
  MessageBody(const MessageBody&);
  MessageBody(MessageBody&&) noexcept;
  MessageBody& operator=(const MessageBody&);
  MessageBody& operator=(MessageBody&&) noexcept;
  ~MessageBody();
};

/// A message as it is sent, with the incarnation and the view of its sender: the receiver drops it
/// if the incarnation is older than its own, and lets it wait until it has that view.
struct Message {
  Incarnation incarnation;
  ViewNumber view;
  MessageBody body;
};
SWARMPI_FIELDS(Message, incarnation, view, body);

/// The payload that it carries; null if there is none.
inline PayloadRef payload_in(const Message& message) {
  PayloadRef found;
  const auto look_at = [&found]<class Field>(std::string_view, const Field& field) {
    if constexpr (std::is_same_v<Field, PayloadRef>) found = field;
  };
  std::visit([&](const auto& body) { for_each_field(body, look_at); }, message.body);
  return found;
}
inline std::int64_t payload_bytes(const Message& message) { return size_of(payload_in(message)); }

}  // namespace swarmpi
