#pragma once
// Every message of the protocol with its fields. The protocol never looks into payloads.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/bitmap.hpp"

namespace swarmpi {

/// Where a part of a checkpoint lies, and what it must hash to.
struct StoredFile {
  std::string name;
  std::uint64_t hash = 0;
  std::int64_t size_bytes = 0;
};
/// A state of the run that can be gone back to.
struct RestartPoint {
  ResumeState state;
  std::vector<StoredFile> files;  // none before any step
};

/// Leader to all: who serves what from now on.
struct ViewMessage {
  View view;
  /// A stage was lost with its last peer: all go back to this, under its incarnation.
  std::shared_ptr<const RestartPoint> restart;
};

/// The way of a microbatch that is repaired: which peers have it already in the stages to come, and
/// how far it has to go. It holds as long as all of them live.
struct Path {
  ViewNumber planned_in;  // of two paths the later counts
  std::map<StageId, PeerId> holders;
  StageId last;  // the holder of the stage behind it has the gradient that is missing, or will

  bool operator==(const Path&) const = default;
};
/// Null where the routers choose.
using PathRef = std::shared_ptr<const Path>;

/// From whoever takes over, to all: the newest view is wanted; none of an earlier term is to be
/// adopted any more.
struct InquiryMessage {
  Term term;
};
struct InquiryAnswer {
  Term term;
  View view;  // the newest that was adopted
  std::shared_ptr<const RestartPoint> restart;
};

/// Source to a peer of stage 0: work on this microbatch.
struct IssueMessage {
  MicrobatchId microbatch;
  double sent_s = 0;  // on the sender's clock; comes back in ForwardDone
  PathRef path;
};

/// Activations to the next stage.
struct ForwardMessage {
  WorkId work;
  PayloadRef activations;  // (B, T, C)
  double sent_s = 0;       // on the sender's clock; comes back in ForwardDone
  PathRef path;
};

/// Leader to a peer: what this work led to is lost; send its output again, along this path.
struct ResendMessage {
  WorkId work;
  PathRef path;
};
/// To the peer that has this work already: the gradient of its input shall go to the sender.
struct RedirectMessage {
  WorkId work;
};
/// Peer to leader: what it was to send again is not here any more; the repair must be planned anew.
struct UnableMessage {
  WorkId work;
};

/// To the peer that chose the sender for a microbatch: how long that took. Feeds its router.
struct ForwardDone {
  WorkId work;
  double queue_s = 0;    // between arrival and start
  double compute_s = 0;  // of the job
  double sent_s = 0;     // the forward's own time stamp: the rest of the way is the link's
};

/// Gradients back to the peer that sent the activations.
struct BackwardMessage {
  WorkId work;
  PayloadRef gradient;  // (B, T, C)
};

/// A peer's contribution to one (step, stage, microbatch).
struct ContributionFact {
  WorkId work;
  std::vector<kernels::Contribution> tensors;  // of the stage, in tensor order
};
/// The loss of a microbatch, known in the last stage.
struct LossFact {
  MicrobatchId microbatch;
  double nats = 0;  // sum over its tokens
};
/// The state of a stage after a step.
struct HashFact {
  Step step;
  StageId stage;
  std::vector<std::uint64_t> tensors;  // hash of each tensor's weights and moments, in tensor order
};
/// What a peer did for a stage in a step.
struct UseFact {
  PeerRow row;
};

/// Peer to leader, in batches: facts about what it holds.
struct ReportMessage {
  std::vector<ContributionFact> contributions;
  std::vector<LossFact> losses;
  std::vector<HashFact> hashes;
  std::vector<UseFact> uses;

  bool empty() const {
    return contributions.empty() && losses.empty() && hashes.empty() && uses.empty();
  }
};

/// What the microbatches of a step come to, beside their gradients.
struct StepFacts {
  double loss_nats = 0;               // summed in index order
  double validation_nats = 0;         // likewise, of the validation that rides on the step
  Exponents measured;                 // e of each tensor, the largest over the microbatches
  std::vector<std::int32_t> flagged;  // tensors whose gradient was infinite, NaN or too large

  bool operator==(const StepFacts&) const = default;
};

/// One peer's share of a sealed stage: exactly these microbatches are in its accumulator.
struct SealShare {
  PeerId peer;
  Bitmap microbatches;
};
/// A chunk of the reduced gradient that was finished under an earlier seal: it is a fact.
struct ChunkFact {
  std::int32_t chunk = 0;
  PeerId from;             // has it
  std::vector<PeerId> to;  // have it not
};
/// How one stage is sealed.
struct StageSeal {
  StageId stage;
  SealId seal;
  std::vector<PeerId> replicas;   // by id
  std::vector<SealShare> shares;  // disjoint, together all M; only chunks that are no facts need it
  std::int64_t chunk_replicas = 0;  // replicas that the chunks were cut for
  std::vector<ChunkFact> facts;     // by chunk
  std::vector<PeerId> learners;     // get the reduced gradient too
};
/// Leader to all: freeze if your accumulators carry exactly this.
struct SealMessage {
  Step step;
  std::vector<StageSeal> stages;  // that are sealed, or sealed anew
  bool skipped = false;           // a flag was raised: nothing will be reduced
  std::shared_ptr<const StepFacts> facts;
};
/// Leader to the replicas of a stage: its last seal is void, for somebody's share is lost.
struct ReopenMessage {
  Step step;
  StageId stage;
};

/// Peer to leader: its accumulator carries something else than what was sealed.
struct SealRefused {
  SealId seal;
  Step step;
  StageId stage;
  Bitmap carried;  // what the accumulator carries
};

/// Between replicas of a sealed stage: the sender's sums of a chunk, or those of several peers.
struct ShareMessage {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  PayloadRef sums;  // packed integers
};
/// Between replicas of a sealed stage: a chunk of the reduced gradient, exactly the sum of all M,
/// rounded once.
struct ChunkMessage {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  std::vector<double> squares;  // one a block of the chunk
  PayloadRef gradient;          // fp32, the chunk's blocks one after another
};

/// Peer to leader: holds the whole reduced gradient of the stage, whatever seals it took.
struct ReducedMessage {
  Step step;
  StageId stage;
  std::vector<double> squares;  // one a tensor of the stage; empty where skipped
};

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
  std::vector<std::int32_t> flagged;         // tensors that raised a flag, for the message
};
using CommitRef = std::shared_ptr<const CommitRecord>;

/// Leader to all: the step is committed.
struct CommitMessage {
  CommitRef record;
  Step written;       // rows up to this step are durable: what they were made from is not needed
  Step checkpointed;  // the newest checkpoint that is durable
};

/// Leader to all: the run is over, with this status. Nobody leaves before all have heard it.
struct EndMessage {
  ExitStatus code = ExitStatus::good;
  std::string why;
};
inline Status status_of(const EndMessage& end) {
  return end.code == ExitStatus::good ? Status() : Status::error(end.code, end.why);
}

/// Learner to a replica: send this tensor's state, as of this step or a later one.
struct FetchMessage {
  StageId stage;
  std::int32_t tensor = 0;  // place within the stage
  Step at_least;
};
struct TensorMessage {
  StageId stage;
  std::int32_t tensor = 0;
  Step step;
  PayloadRef state;
};
/// Learner to leader: has the whole state of the stage, and what leads up to this step.
struct LearnedMessage {
  StageId stage;
  Step step;
  std::vector<std::uint64_t> tensors;  // hash of each, in tensor order; empty: not applied yet
};
/// A peer that was not there at the start has come; passed on to the leader.
struct JoinMessage {
  PeerId peer;
};

/// What a peer has of a microbatch in one stage.
enum class Phase : std::uint8_t {
  to_forward,   // its forward pass is due, or runs
  passed_on,    // the next stage has the output: the gradient is waited for
  to_backward,  // its backward pass is due, or runs
  over,         // only what was sent is kept
};
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
/// What a peer has of an open step in one stage.
struct StageRow {
  Step step;
  StageId stage;
  Bitmap contributed;
  std::vector<kernels::Contribution> tensors;  // over these microbatches, in tensor order
  std::optional<SealId> frozen;
  std::int64_t chunk_replicas = 0;   // replicas that the chunks are cut for; 0: not yet
  std::vector<std::int32_t> chunks;  // of the reduced gradient that are in place
};
/// What was sealed with a step.
struct FactsRow {
  Step step;
  std::shared_ptr<const StepFacts> facts;
};
/// Peer to leader, after each change of the view: all that a repair or a new leader has to know.
struct TableMessage {
  ViewNumber view;
  Incarnation incarnation;
  std::vector<CommitRef> commits;  // that may not be written down yet, and the last one
  Step written, checkpointed;      // as last heard
  std::vector<HashFact> hashes;    // of these
  std::vector<LossFact> losses;    // of open steps
  std::vector<FactsRow> facts;
  std::vector<StageRow> stages;
  std::vector<WorkRow> works;
  std::vector<ReducedMessage> reduced;
  std::vector<LearnedMessage> learned;
  std::optional<EndMessage> end;  // that was heard
};

/// Leader to one replica of each stage: write your state as of `step`.
struct CheckpointMessage {
  Step step;
  StageId stage;
};
/// Peer to leader: the stage's part is durable, or can not be written any more.
struct StageStoredMessage {
  Step step;
  StageId stage;
  bool stored = false;  // or the state has moved on
  StoredFile file;
  std::vector<std::uint64_t> tensor_hashes;  // of what was written, in tensor order
};

/// Peer to leader: asked to stop (a signal). From all, it means the run; from fewer, that these
/// leave.
struct NoticeMessage {
  std::string why;
};
/// Peer to leader: cannot go on, and says why.
struct FailureMessage {
  ExitStatus code = ExitStatus::no;
  std::string why;
};
/// Between the leader and everybody: alive.
struct HeartbeatMessage {};
/// To a peer from which something is awaited: does it live, and does the link?
struct PingMessage {
  double sent_s = 0;  // on the sender's clock; comes back
};
struct PongMessage {
  double sent_s = 0;
};
/// Peer to leader: this peer does not answer the sender.
struct SuspectMessage {
  PeerId peer;
};
/// To a peer that speaks although it was said to be dead: the others go on without it.
struct FencedMessage {};
/// Peer to leader: has heard the end.
struct EndHeard {};
/// Leader to a peer that wanted to leave: nothing of it is needed any more.
struct ReleaseMessage {};
/// Leader to all: everybody has heard the end; finish.
struct ExitMessage {};
/// Peer to leader: this peer is dead, as the sender sees it. To all: this one is the sender.
struct LostMessage {
  PeerId peer;
  bool left = false;  ///< it was let go, and said so
};

using MessageBody =
    std::variant<ViewMessage, InquiryMessage, InquiryAnswer, IssueMessage, ForwardMessage,
                 ResendMessage, RedirectMessage, UnableMessage, ForwardDone, BackwardMessage,
                 ReportMessage, SealMessage, ReopenMessage, SealRefused, ShareMessage, ChunkMessage,
                 ReducedMessage, CommitMessage, TableMessage, FetchMessage, TensorMessage,
                 LearnedMessage, JoinMessage, CheckpointMessage, StageStoredMessage, NoticeMessage,
                 FailureMessage, LostMessage, HeartbeatMessage, PingMessage, PongMessage,
                 SuspectMessage, FencedMessage, ReleaseMessage, EndMessage, EndHeard, ExitMessage>;

/// What every message carries: older incarnations are dropped, newer views are waited for.
struct Message {
  Incarnation incarnation;
  ViewNumber view;
  MessageBody body;
};

}  // namespace swarmpi
