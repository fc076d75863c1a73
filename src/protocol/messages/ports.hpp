#pragma once
// The protocol's whole contact with the world: events in, actions out. Behind the actions stand
// three of the seams (transport, compute, storage); the fourth, the clock, is the `now_s` of every
// call. An action that is answered names the event that answers it.

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

// ---- Compute: jobs on this peer's stages. One at a time; each is answered by one JobFinished.

// Microbatches.

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
  bool add = true;  // false: the sums have it already, only the input's gradient is wanted
};

// Reduction.

/// Packs this peer's sums of a chunk's blocks, added to those that came from others, for the
/// chunk's owner or the next replica on the ring.
struct ShareJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  std::vector<PayloadRef> addends;  // packed sums of other peers
};

/// Rounds the sums of all replicas over a chunk's blocks to the reduced gradient.
struct ReduceJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  std::vector<PayloadRef> addends;  // packed sums of the other replicas
  std::shared_ptr<const Exponents> exponents;
  std::int64_t tokens = 0;
  bool pass_on = false;  // others need the result: it comes back as a payload
};

/// Copies a chunk that another replica has reduced into this peer's reduced gradient.
struct PlaceJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  PayloadRef gradient;  // fp32, block after block
};

/// Copies a chunk out of this peer's reduced gradient, for a peer that lacks it.
struct GatherJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
};

// Update.

/// Applies a committed step to the stage's state (if it is not skipped) and frees the step's sums.
struct ApplyJob {
  StageId stage;
  std::shared_ptr<const CommitRecord> record;
  /// Of a learner, by index within the stage: the tensors that are here; the others have no state
  /// yet, and their hash is 0. Empty: all.
  std::vector<bool> tensors;
};

// Learning a stage, and leaving one.

/// Allocates a stage that is to be learned, as of `step`; a WriteJob fills each of its tensors.
struct PrepareJob {
  StageId stage;
  Step step;
};
/// Takes a copy of one tensor's state (all versions of its weights, and its moments), for a
/// learner.
struct ReadJob {
  StageId stage;
  std::int32_t tensor = 0;  // index within the stage
};
/// Writes such a copy into the stage.
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

// What the jobs answer.

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

// ---- Events

/// The first event of every peer.
struct Started {};

// From transport.

struct MessageArrived {
  PeerId from;
  Message message;
};
/// A peer has died: a fact, not a suspicion.
struct PeerLost {
  PeerId peer;
};
/// A peer that was to be killed cannot be reached: it may live.
struct KillFailed {
  PeerId peer;
};
/// A process was started, whose peer will ask to join.
struct PeerSpawned {
  PeerId peer;
  double took_s = 0;
};
/// No process could be started.
struct SpawnFailed {
  std::string why;
};

// From compute.

struct JobFinished {
  JobResult result;
  double duration_s = 0;
};

// From storage.

/// The term's file was created, or (`created` false) existed already.
struct TermCreated {
  Term term;
  bool created = false;
  std::optional<EndMessage> ended = {};  ///< the run has ended so: nobody leads it any more
};
/// A later term exists than the one that this peer leads: storage takes nothing more under it.
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
/// The checkpoint's manifest is on disk: the checkpoint exists.
struct CheckpointDurable {
  Step step;
};
/// The newest complete checkpoint, if there is one.
struct ManifestLoaded {
  std::optional<RestartPoint> checkpoint;
};
/// A stage holds what LoadStage asked for.
struct StageLoaded {
  Incarnation incarnation;
  StageId stage;
};
/// Storage cannot continue: its status is stopped (disk full, an I/O error) or failed (what is
/// stored contradicts itself).
struct StorageFailed {
  Status status;
};
/// The mark of the run's end is on disk.
struct EndDurable {};

// From the process.

/// A person or a batch system asks for a checkpoint and a stop.
struct StopRequested {
  std::string why;
};
/// The time of the last SetTimer has come.
struct TimerDue {};

using Event = std::variant<Started, MessageArrived, JobFinished, PeerLost, KillFailed, TermCreated,
                           RecordDurable, StageStored, CheckpointDurable, ManifestLoaded,
                           StageLoaded, StorageFailed, TermOver, EndDurable, StopRequested,
                           PeerSpawned, SpawnFailed, TimerDue>;

// ---- Actions

// For transport.

struct Send {
  PeerId to;
  Message message;
};
/// Kill this peer, because it is silent; answered by PeerLost at all peers, or by KillFailed here.
struct KillPeer {
  PeerId peer;
};
/// Start another process, with a peer of its own; answered by PeerSpawned or SpawnFailed.
struct SpawnPeer {};

// For compute.

/// Answered by JobFinished.
struct StartJob {
  Job job;
};

// For storage.

/// Create `term-N` exclusively; answered by TermCreated.
struct CreateTerm {
  Term term;
};
/// Append to the journal of this leader's term; answered by RecordDurable{number} once synced.
struct StoreRecord {
  std::int64_t number = 0;
  Record row;
};
/// Write this peer's stage as of `step`; answered by StageStored. Compute must not apply a later
/// step meanwhile: the protocol sees to it.
struct StoreStage {
  Step step;
  StageId stage;
  Term term;  // of the leader that asks, part of the file's name: two leaders never write one file
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
/// Write the mark of the run's end, with its status: nobody leads the run any more. Answered by
/// EndDurable.
struct StoreEnd {
  ExitStatus code = ExitStatus::good;
  std::string why;
};

// For the process.

/// Ask for a TimerDue at this time, instead of any that was asked for before.
struct SetTimer {
  double due_s = 0;
};
/// The peer is done, with this status: it handles no event any more.
struct Finish {
  Status status;
};

using Action =
    std::variant<Send, StartJob, KillPeer, SpawnPeer, CreateTerm, StoreRecord, StoreStage,
                 StoreManifest, LoadManifest, LoadStage, StoreEnd, SetTimer, Finish>;
using Actions = std::vector<Action>;

}  // namespace swarmpi
