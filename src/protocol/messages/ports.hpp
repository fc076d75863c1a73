#pragma once
// The protocol's whole contact with the world: events in, actions out. Behind the actions stand
// three of the seams (transport, compute, storage); the fourth, the clock, is the `now` of every
// call.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/messages/messages.hpp"
#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

// ---- Compute: jobs on this peer's stages. One at a time; each is answered by one event.

/// y = stage(x) for a microbatch. In stage 0 the input is the microbatch's tokens, which compute
/// makes itself. In the last stage only validation is a ForwardJob: its answer is the loss.
struct ForwardJob {
  WorkId work;
  PayloadRef input;  // (B, T, C), null in stage 0
};

/// Backward pass of a microbatch: adds its gradients to the step's sums, or makes only the gradient
/// of its input again. A forward pass need not precede it. In the last stage this is forward, loss
/// and backward in one, with no output gradient.
struct BackwardJob {
  WorkId work;
  PayloadRef input;            // (B, T, C), null in stage 0
  PayloadRef output_gradient;  // (B, T, C), null in the last stage
  std::shared_ptr<const Exponents> exponents;
  bool add = true;  // else it was added already
};

/// Packs this peer's sums of some blocks, added to those that came from others, for the next
/// replica on the way to the chunk's owner.
struct ShareJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  std::vector<PayloadRef> addends;  // packed sums of other peers
};

/// Rounds the sums of all peers over some blocks to the reduced gradient.
struct ReduceJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  std::vector<PayloadRef> addends;  // packed sums of the other peers
  std::shared_ptr<const Exponents> exponents;
  std::int64_t tokens = 0;
  bool pass_on = false;  // others need the result
};

/// Puts blocks that another peer has reduced in their place.
struct PlaceJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  PayloadRef gradient;  // fp32, block after block
};

/// Takes blocks of the reduced gradient from their place, for a peer that has them not.
struct GatherJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
};

/// Applies a committed step to the stage's state (if it is not skipped) and frees the step's sums.
struct ApplyJob {
  StageId stage;
  std::shared_ptr<const CommitRecord> record;
  /// A learner's: the tensors that are here, by place; the others have no state yet, and no hash
  /// (0). Empty: all.
  std::vector<bool> tensors;
};

/// Makes room for a stage that is learned, as of `step`; what its tensors hold comes by WriteJob.
struct PrepareJob {
  StageId stage;
  Step step;
};
/// Takes a copy of one tensor's state (all versions of its weights, and its moments), for a
/// learner.
struct ReadJob {
  StageId stage;
  std::int32_t tensor = 0;  // place within the stage
};
/// Puts such a copy in its place.
struct WriteJob {
  StageId stage;
  std::int32_t tensor = 0;
  Step step;  // whose state it is
  PayloadRef state;
};
/// Frees a stage that is not served any more.
struct DropJob {
  StageId stage;
};

using Job = std::variant<ForwardJob, BackwardJob, ShareJob, ReduceJob, PlaceJob, GatherJob,
                         ApplyJob, PrepareJob, ReadJob, WriteJob, DropJob>;

// ---- Events

struct ForwardResult {
  WorkId work;
  PayloadRef output;     // (B, T, C), null in the last stage
  double loss_nats = 0;  // sum over tokens, last stage only
};
struct BackwardResult {
  WorkId work;
  PayloadRef input_gradient;                         // (B, T, C), null in stage 0
  double loss_nats = 0;                              // sum over tokens, last stage only
  std::vector<kernels::Contribution> contributions;  // one a tensor of the stage, in tensor order;
                                                     // none where nothing was added
};
struct ShareResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  PayloadRef sums;  // packed integers
};
struct ReduceResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  std::vector<double> squares;  // sum of squares, one a block
  PayloadRef gradient;          // fp32, block after block; null where nobody needs it
};
struct PlaceResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
};
struct GatherResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  PayloadRef gradient;  // fp32, block after block
};
struct ApplyResult {
  Step step;
  StageId stage;
  std::vector<std::uint64_t> tensor_hashes;  // of weights and moments, in tensor order
};
struct PrepareResult {
  StageId stage;
};
struct ReadResult {
  StageId stage;
  std::int32_t tensor = 0;
  PayloadRef state;
};
struct WriteResult {
  StageId stage;
  std::int32_t tensor = 0;
  std::uint64_t hash = 0;  // of the tensor's weights and moments
};
struct DropResult {
  StageId stage;
};
using JobResult =
    std::variant<ForwardResult, BackwardResult, ShareResult, ReduceResult, PlaceResult,
                 GatherResult, ApplyResult, PrepareResult, ReadResult, WriteResult, DropResult>;

struct Started {};
struct MessageArrived {
  PeerId from;
  Message message;
};
struct JobFinished {
  JobResult result;
  double duration_s = 0;
};
struct PeerLost {
  PeerId peer;
};
/// A peer that was to be killed lives, and cannot be reached.
struct KillFailed {
  PeerId peer;
};
/// A process was started, whose peer will ask to join.
struct PeerSpawned {
  PeerId peer;
  double took_s = 0;
};
/// None could be.
struct SpawnFailed {
  std::string why;
};
/// A term file was created, or somebody else had it already.
struct TermCreated {
  Term term;
  bool created = false;
  std::optional<EndMessage> ended = {};  ///< the run has ended so: nobody leads it any more
};
/// Somebody has created a later term than the one that this peer leads: nothing more is stored in
/// it.
struct TermOver {
  Term term;
  Term newest;
};
/// The journal is on disk up to this record.
struct RecordDurable {
  std::int64_t number = 0;
};
/// A stage's part of a checkpoint is on disk.
struct StageStored {
  Step step;
  StageId stage;
  StoredFile file;
  std::vector<std::uint64_t> tensor_hashes;  // of what was written, in tensor order
};
/// The checkpoint's manifest is on disk: from now on the checkpoint exists.
struct CheckpointDurable {
  Step step;
};
/// The newest checkpoint that is complete; none if there is none.
struct ManifestLoaded {
  std::optional<RestartPoint> checkpoint;
};
/// A stage is as it was after `step`.
struct StageLoaded {
  Incarnation incarnation;
  StageId stage;
};
/// Storage cannot go on: stopped (no room, an I/O error), or failed (what is stored contradicts
/// itself).
struct StorageFailed {
  Status status;
};
/// The mark of the run's end is on disk.
struct EndDurable {};
/// A person or a batch system asks for checkpoint and stop.
struct StopRequested {
  std::string why;
};
struct TimerDue {};

using Event = std::variant<Started, MessageArrived, JobFinished, PeerLost, KillFailed, TermCreated,
                           RecordDurable, StageStored, CheckpointDurable, ManifestLoaded,
                           StageLoaded, StorageFailed, TermOver, EndDurable, StopRequested,
                           PeerSpawned, SpawnFailed, TimerDue>;

// ---- Actions

struct Send {
  PeerId to;
  Message message;
};
struct StartJob {
  Job job;
};
/// Kill this peer, for it is silent; answered by its loss, of which all hear, or by KillFailed.
struct KillPeer {
  PeerId peer;
};
/// Start another process, with a peer of its own; answered by PeerSpawned or SpawnFailed.
struct SpawnPeer {};
/// Create `term-N` exclusively; answered by TermCreated.
struct CreateTerm {
  Term term;
};
/// Append to the journal of this leader's term; answered by RecordDurable{number} once synced.
struct StoreRecord {
  std::int64_t number = 0;
  std::variant<StepRow, ValidationRow, PeerRow, EventRow, ThroughputRow> row;
};
/// Write this peer's stage as of `step`; answered by StageStored. Compute must not apply a later
/// step meanwhile: the protocol sees to it.
struct StoreStage {
  Step step;
  StageId stage;
  Term term;  // of the leader that asks: files of different leaderships never meet
};
/// Write leader state and manifest; answered by CheckpointDurable.
struct StoreManifest {
  ResumeState state;
  std::vector<StoredFile> files;
};
/// Read the manifest of the newest complete checkpoint; answered by ManifestLoaded.
struct LoadManifest {};
/// Make this stage, served so far or not, what it was after `step`, from the files of a checkpoint
/// (which may have been cut into other stages); before any step (-1): its initial values. What it
/// held is of no use any more. Answered by StageLoaded.
struct LoadStage {
  Incarnation incarnation;
  StageId stage;
  Step step;
  std::vector<StoredFile> files;
};
/// Mark the run as ended, complete if all went well: nobody takes it up again. Answered by
/// EndDurable.
struct StoreEnd {
  ExitStatus code = ExitStatus::good;
  std::string why;
};
/// Ask for a TimerDue at this time, instead of any that was asked for before.
struct SetTimer {
  double due_s = 0;
};
/// The peer is done: nothing will be asked of it any more.
struct Finish {
  Status status;
};

using Action =
    std::variant<Send, StartJob, KillPeer, SpawnPeer, CreateTerm, StoreRecord, StoreStage,
                 StoreManifest, LoadManifest, LoadStage, StoreEnd, SetTimer, Finish>;
using Actions = std::vector<Action>;

}  // namespace swarmpi
