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

#include "core/cover.hpp"
#include "core/ids.hpp"
#include "core/overloaded.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/fixed_point.hpp"
#include "protocol/messages/messages.hpp"
#include "protocol/reduction/blocks.hpp"
#include "protocol/reduction/chunks.hpp"

namespace swarmpi {

// ---- Compute: jobs on this peer's stages. One at a time; each is answered by one JobFinished.

// Microbatches.

/// y = stage(x) for a microbatch. In stage 0 the input is the microbatch's tokens, which compute
/// makes itself. In the last stage only validation is a ForwardJob: its answer is the loss.
struct ForwardJob {
  WorkId work;
  PayloadRef input;  // (B, T, C), null in stage 0
};
SWARMPI_FIELDS(ForwardJob, work, input);

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
SWARMPI_FIELDS(BackwardJob, work, input, output_gradient, exponents, add);

// Reduction.

/// Packs this peer's sums of a chunk's blocks, added to those that came from others, for the
/// chunk's owner or the next replica on the ring.
struct ShareJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  std::vector<PartialSums> addends;  // of other peers
};
SWARMPI_FIELDS(ShareJob, seal, step, stage, chunk, blocks, addends);

/// Rounds the sums of all replicas over a chunk's blocks to the reduced gradient.
struct ReduceJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  std::vector<PartialSums> addends;  // of the other replicas
  std::shared_ptr<const Exponents> exponents;
  std::int64_t tokens = 0;
  bool pass_on = false;  // others need the result: it comes back as a payload
  /// What is rounded is not this peer's sums and the addends, but what the collective of this view
  /// has left in its `out`, and what that is over was compared. The result is hashed in any case.
  std::optional<ViewNumber> collective = {};
};
SWARMPI_FIELDS(ReduceJob, seal, step, stage, chunk, blocks, addends, exponents, tokens, pass_on,
               collective);

/// Copies a chunk that another replica has reduced into this peer's reduced gradient.
struct PlaceJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  PayloadRef gradient;  // fp32, block after block
};
SWARMPI_FIELDS(PlaceJob, seal, step, stage, chunk, blocks, gradient);

/// Copies a chunk out of this peer's reduced gradient, for a peer that lacks it.
struct GatherJob {
  SealId seal;
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
};
SWARMPI_FIELDS(GatherJob, seal, step, stage, chunk, blocks);

// Update.

/// What a learner has of a stage's state while it lacks some of it.
struct PartialState {
  std::vector<BlockRange> here;       // are updated; the rest is left alone
  std::vector<BlockRange> under_way;  // pieces whose gradient is kept for them: it comes back
  std::vector<float> ratios;          // RatiosMessage: of tensors of which only pieces are here
};
SWARMPI_FIELDS(PartialState, here, under_way, ratios);

/// Applies a committed step to the stage's state (if it is not skipped) and frees the step's sums.
struct ApplyJob {
  StageId stage;
  std::shared_ptr<const CommitRecord> record;
  std::optional<PartialState> partial;  // nothing: all of the state is here
};
SWARMPI_FIELDS(ApplyJob, stage, record, partial);

// Update, where each replica owns a range of the stage. An ApplyJob comes when all is in place.

/// Applies a committed step, which is not skipped, to a chunk that this peer owns.
struct UpdateJob {
  std::shared_ptr<const CommitRecord> record;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  bool pass_on = false;  // others need the weights: they come back as a payload
};
SWARMPI_FIELDS(UpdateJob, record, stage, chunk, blocks, pass_on);
/// Puts a chunk's weights, which its owner has updated, in their place.
struct PlaceWeightsJob {
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
  PayloadRef weights;  // fp32, block after block
};
SWARMPI_FIELDS(PlaceWeightsJob, step, stage, chunk, blocks, weights);
/// Copies the weights of a chunk that this peer has updated, for a peer that got them damaged.
struct CopyWeightsJob {
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  BlockRange blocks;
};
SWARMPI_FIELDS(CopyWeightsJob, step, stage, chunk, blocks);

// Learning a stage, and leaving one.

/// Allocates a stage that is to be learned, as of `step`; a WriteJob fills each of its pieces.
struct PrepareJob {
  StageId stage;
  Step step;
};
SWARMPI_FIELDS(PrepareJob, stage, step);
/// Takes a copy of the state of these blocks (all versions of their weights, and the moments), for
/// a learner.
struct ReadJob {
  StageId stage;
  BlockRange blocks;
};
SWARMPI_FIELDS(ReadJob, stage, blocks);
/// An update that a piece of the state has missed, for it was under way.
struct MissedUpdate {
  std::shared_ptr<const CommitRecord> record;
  PayloadRef gradient;        // reduced, of the piece's blocks, one after another; null if skipped
  std::vector<float> ratios;  // RatiosMessage
};
SWARMPI_FIELDS(MissedUpdate, record, gradient, ratios);
/// Writes such a copy into the stage, and brings it up to date.
struct WriteJob {
  StageId stage;
  BlockRange blocks;
  Step step;               // whose state it is
  std::uint64_t hash = 0;  // of it
  PayloadRef state;
  std::vector<MissedUpdate> missed;     // from the next step up to the stage's own
  std::vector<std::int32_t> completes;  // tensors of which nothing is missing then
};
SWARMPI_FIELDS(WriteJob, stage, blocks, step, hash, state, missed, completes);
/// Frees a stage that is not served any more.
struct DropJob {
  StageId stage;
};
SWARMPI_FIELDS(DropJob, stage);

// Showing that jobs can be done here.

/// Opens the data files anew, and reads a microbatch as its passes do, to no further end.
struct TryJob {
  StageId stage;
  MicrobatchId microbatch;
};
SWARMPI_FIELDS(TryJob, stage, microbatch);

using Job = std::variant<ForwardJob, BackwardJob, ShareJob, ReduceJob, PlaceJob, GatherJob,
                         ApplyJob, PrepareJob, ReadJob, WriteJob, DropJob, TryJob, UpdateJob,
                         PlaceWeightsJob, CopyWeightsJob>;
inline StageId stage_of(const Job& job) {
  return std::visit(Overloaded{[](const ForwardJob& j) { return j.work.stage; },
                               [](const BackwardJob& j) { return j.work.stage; },
                               [](const auto& j) { return j.stage; }},
                    job);
}

// What the jobs answer.

struct ForwardResult {
  WorkId work;
  PayloadRef output;     // (B, T, C), null in the last stage
  double loss_nats = 0;  // sum over tokens, last stage only
};
SWARMPI_FIELDS(ForwardResult, work, output, loss_nats);
struct BackwardResult {
  WorkId work;
  PayloadRef input_gradient;                         // (B, T, C), null in stage 0
  double loss_nats = 0;                              // sum over tokens, last stage only
  std::vector<kernels::Contribution> contributions;  // one a tensor of the stage, in tensor order;
                                                     // none where nothing was added
  bool with_forward = false;  // the forward pass was done in it, for its activations were not kept
};
SWARMPI_FIELDS(BackwardResult, work, input_gradient, loss_nats, contributions, with_forward);
struct ShareResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  PartialSums partial;  // own and the addends'
};
SWARMPI_FIELDS(ShareResult, seal, stage, chunk, partial);
struct ReduceResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  Cover cover;                  // of what was summed
  std::vector<double> squares;  // sum of squares, one a block
  PayloadRef gradient;          // fp32, block after block; null where nobody needs it
  std::uint64_t hash = 0;       // of what is in place now; 0 where nobody else has it
};
SWARMPI_FIELDS(ReduceResult, seal, stage, chunk, cover, squares, gradient, hash);
struct PlaceResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  std::uint64_t hash = 0;  // of what is in place now
};
SWARMPI_FIELDS(PlaceResult, seal, stage, chunk, hash);
struct GatherResult {
  SealId seal;
  StageId stage;
  std::int32_t chunk = 0;
  PayloadRef gradient;     // fp32, block after block
  std::uint64_t hash = 0;  // of it
};
SWARMPI_FIELDS(GatherResult, seal, stage, chunk, gradient, hash);
struct ApplyResult {
  Step step;
  StageId stage;
  StateHash hash;                     // 0 of tensors that a learner does not have as a whole
  std::vector<PayloadRef> gradients;  // of the pieces under way; null where skipped
  std::vector<float> ratios;          // RatiosMessage; empty where there are none
};
SWARMPI_FIELDS(ApplyResult, step, stage, hash, gradients, ratios);
/// Of an UpdateJob and of a CopyWeightsJob.
struct WeightsResult {
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  PayloadRef weights;      // null where nobody needs them
  std::uint64_t hash = 0;  // of them; 0 where there are none
};
SWARMPI_FIELDS(WeightsResult, step, stage, chunk, weights, hash);
struct PlaceWeightsResult {
  Step step;
  StageId stage;
  std::int32_t chunk = 0;
  std::uint64_t hash = 0;  // of what is in place now
};
SWARMPI_FIELDS(PlaceWeightsResult, step, stage, chunk, hash);
struct PrepareResult {
  StageId stage;
  bool has_room = true;  ///< false: nothing was allocated, for there is no memory left for it
};
SWARMPI_FIELDS(PrepareResult, stage, has_room);
struct ReadResult {
  StageId stage;
  BlockRange blocks;
  std::uint64_t hash = 0;  // of what was read
  PayloadRef state;
};
SWARMPI_FIELDS(ReadResult, stage, blocks, hash, state);
struct WriteResult {
  StageId stage;
  BlockRange blocks;
  bool intact = false;                       // else what came is not what was sent
  std::vector<std::int32_t> completed;       // tensors
  std::vector<std::uint64_t> tensor_hashes;  // of these
};
SWARMPI_FIELDS(WriteResult, stage, blocks, intact, completed, tensor_hashes);
struct DropResult {
  StageId stage;
};
SWARMPI_FIELDS(DropResult, stage);
struct TryResult {
  StageId stage;
};
SWARMPI_FIELDS(TryResult, stage);
using JobResult =
    std::variant<ForwardResult, BackwardResult, ShareResult, ReduceResult, PlaceResult,
                 GatherResult, ApplyResult, PrepareResult, ReadResult, WriteResult, DropResult,
                 TryResult, WeightsResult, PlaceWeightsResult>;

// ---- Events

/// The first event of every peer.
struct Started {};
SWARMPI_FIELDS(Started);

// From transport.

struct MessageArrived {
  PeerId from;
  Message message;
};
SWARMPI_FIELDS(MessageArrived, from, message);
/// A peer has died: a fact, not a suspicion.
struct PeerLost {
  PeerId peer;
};
SWARMPI_FIELDS(PeerLost, peer);
/// A peer that was to be killed cannot be reached: it may live.
struct KillFailed {
  PeerId peer;
};
SWARMPI_FIELDS(KillFailed, peer);
/// A process was started, whose peer will ask to join.
struct PeerSpawned {
  PeerId peer;
  double took_s = 0;
};
SWARMPI_FIELDS(PeerSpawned, peer, took_s);
/// No process could be started.
struct SpawnFailed {
  std::string why;
};
SWARMPI_FIELDS(SpawnFailed, why);

// From compute.

struct JobFinished {
  JobResult result;
  double duration_s = 0;
};
SWARMPI_FIELDS(JobFinished, result, duration_s);

// From storage.

/// The term's file was created, or (`created` false) existed already.
struct TermCreated {
  Term term;
  bool created = false;
  std::optional<EndMessage> ended = {};  ///< the run has ended so: nobody leads it any more
};
SWARMPI_FIELDS(TermCreated, term, created, ended);
/// A later term exists than the one that this peer leads: storage takes nothing more under it.
struct TermOver {
  Term term;
  Term newest;
};
SWARMPI_FIELDS(TermOver, term, newest);
/// The journal is on disk up to this record.
struct RecordDurable {
  std::int64_t number = 0;
};
SWARMPI_FIELDS(RecordDurable, number);
/// A stage's part of a checkpoint is on disk.
struct StageStored {
  Step step;
  StageId stage;
  StoredFile file;
  std::vector<std::uint64_t> tensor_hashes;  // of what was written, in tensor order; of an owner's
                                             // range alone
};
SWARMPI_FIELDS(StageStored, step, stage, file, tensor_hashes);
/// The checkpoint's manifest is on disk: the checkpoint exists.
struct CheckpointDurable {
  Step step;
};
SWARMPI_FIELDS(CheckpointDurable, step);
/// No manifest was written: this part cannot be found from where its leader is.
struct CheckpointDropped {
  Step step;
  std::int64_t part = 0;  ///< its number among the manifest's files
  std::string why;        ///< with the part's path
};
SWARMPI_FIELDS(CheckpointDropped, step, part, why);
/// The checkpoint cannot be read any more, so that it is no longer one: an older one is taken.
struct CheckpointDamaged {
  Step step;
  std::string why;  ///< with its path
};
SWARMPI_FIELDS(CheckpointDamaged, step, why);
/// The newest complete checkpoint, if there is one.
struct ManifestLoaded {
  std::optional<RestartPoint> checkpoint;
};
SWARMPI_FIELDS(ManifestLoaded, checkpoint);
/// A stage holds what LoadStage asked for, unless there is no memory left for it, or the checkpoint
/// is damaged.
struct StageLoaded {
  Incarnation incarnation;
  StageId stage;
  bool has_room = true;
  std::string damage = {};  ///< why the checkpoint cannot be used, with its path; "": it can
};
SWARMPI_FIELDS(StageLoaded, incarnation, stage, has_room, damage);
/// Storage or compute cannot continue: its status is stopped (disk full, an I/O error) or failed
/// (what is stored contradicts itself, memory has changed a stage's state).
struct StorageFailed {
  Status status;
};
SWARMPI_FIELDS(StorageFailed, status);
/// The mark of the run's end is on disk.
struct EndDurable {};
SWARMPI_FIELDS(EndDurable);
/// What StoreProbe asked for is on disk.
struct ProbeStored {};
SWARMPI_FIELDS(ProbeStored);

// From compute and storage: whether they come on.

/// The two lanes of storage, each with calls of its own, one at a time: of whoever leads (terms,
/// rows, manifests, the end), and of stages.
enum class Lane : std::uint8_t { run, stages };
constexpr Lane last_of(Lane) { return Lane::stages; }
/// How far a lane has come.
struct LaneProgress {
  std::int64_t done = 0;   ///< actions that are done or given up, of all that were asked for
  std::int64_t calls = 0;  ///< of the file system that have returned
  std::string running;     ///< what it does, for people; "": nothing
  double cpu_s = 0;        ///< that its thread has used
};
SWARMPI_FIELDS(LaneProgress, done, calls, running, cpu_s);
/// The answer to ProbeWork.
struct WorkProbed {
  double job_cpu_s = 0;  ///< CPU time that jobs have used so far
  LaneProgress run, stages;
};
SWARMPI_FIELDS(WorkProbed, job_cpu_s, run, stages);

// From the process.

/// A person or a batch system asks for a checkpoint and a stop.
struct StopRequested {
  std::string why;
};
SWARMPI_FIELDS(StopRequested, why);
/// The time of the last SetTimer has come.
struct TimerDue {};
SWARMPI_FIELDS(TimerDue);

// From collectives.

/// The answer to MakeCollectiveId.
struct CollectiveIdMade {
  StageId stage;
  ViewNumber view;
  std::string id;  // bytes
};
SWARMPI_FIELDS(CollectiveIdMade, stage, view, id);
/// It is made: all members have begun to make it, and something has gone through.
struct CollectiveReady {
  StageId stage;
  ViewNumber view;
};
SWARMPI_FIELDS(CollectiveReady, stage, view);
/// What was entered is added up, here and, as they have told each other, at all members: `out`
/// holds the sums. An adapter says so only if no error stands and no abort had begun here.
struct CollectiveDone {
  StageId stage;
  ViewNumber view;
  SealId seal;
  Cover cover;  // of all members' sums, added by the same calls
};
SWARMPI_FIELDS(CollectiveDone, stage, view, seal, cover);
/// The collective has come to its end: an error, or a deadline. What it was at counts nothing.
struct CollectiveFailed {
  StageId stage;
  ViewNumber view;
  std::string why;
};
SWARMPI_FIELDS(CollectiveFailed, stage, view, why);

using Event =
    std::variant<Started, MessageArrived, JobFinished, PeerLost, KillFailed, TermCreated,
                 RecordDurable, StageStored, CheckpointDurable, ManifestLoaded, StageLoaded,
                 StorageFailed, TermOver, EndDurable, StopRequested, PeerSpawned, SpawnFailed,
                 TimerDue, CheckpointDropped, CheckpointDamaged, ProbeStored, WorkProbed,
                 CollectiveIdMade, CollectiveReady, CollectiveDone, CollectiveFailed>;

// ---- Actions

// For transport.

struct Send {
  PeerId to;
  Message message;
};
SWARMPI_FIELDS(Send, to, message);
/// Kill this peer, which is silent or deaf, or whose link is cut; answered by PeerLost at all
/// peers, or by KillFailed here.
struct KillPeer {
  PeerId peer;
};
SWARMPI_FIELDS(KillPeer, peer);
/// Start another process, with a peer of its own; answered by PeerSpawned or SpawnFailed.
struct SpawnPeer {};
SWARMPI_FIELDS(SpawnPeer);

// For compute.

/// Answered by JobFinished.
struct StartJob {
  Job job;
};
SWARMPI_FIELDS(StartJob, job);

// For storage.

/// Create `term-N` exclusively; answered by TermCreated.
struct CreateTerm {
  Term term;
};
SWARMPI_FIELDS(CreateTerm, term);
/// Append to the journal of this leader's term; answered by RecordDurable{number} once synced.
struct StoreRecord {
  std::int64_t number = 0;
  Record row;
  std::vector<GoodputRow> goodput = {};  ///< rows behind it, which it stands for
};
SWARMPI_FIELDS(StoreRecord, number, row, goodput);
/// Write this peer's stage as of `step`; answered by StageStored. Compute must not apply a later
/// step meanwhile: the protocol sees to it.
struct StoreStage {
  Step step;
  StageId stage;
  Term term;  // of the leader that asks, part of the file's name: two leaders never write one file
};
SWARMPI_FIELDS(StoreStage, step, stage, term);
/// Write leader state and manifest, once all parts were found; answered by CheckpointDurable or
/// CheckpointDropped.
struct StoreManifest {
  ResumeState state;
  std::vector<StoredFile> files;  ///< by stage; of each by owner, where there are several
};
SWARMPI_FIELDS(StoreManifest, state, files);
/// Read the manifest of the newest complete checkpoint that is whole; answered by ManifestLoaded,
/// after a CheckpointDamaged for each newer one. Whether its files are whole is told by their sizes
/// and ends, for whoever loads one reads all of it.
struct LoadManifest {
  bool proves = false;  ///< the files are read as well
};
SWARMPI_FIELDS(LoadManifest, proves);
/// Make this stage, served so far or not, what it was after `step`, from the files of a checkpoint
/// (which may have been cut into other stages); before any step (-1): its initial values. What it
/// held is of no use any more. Answered by StageLoaded.
struct LoadStage {
  Incarnation incarnation;
  StageId stage;
  Step step;
  std::vector<StoredFile> files;
  Ownership ownership;  ///< the moments that this peer has from now on
};
SWARMPI_FIELDS(LoadStage, incarnation, stage, step, files, ownership);
/// Write the mark of the run's end, with its status: nobody leads the run any more. Answered by
/// EndDurable.
struct StoreEnd {
  ExitStatus code = ExitStatus::good;
  std::string why;
  std::vector<GoodputRow> goodput = {};  ///< the last rows, to be appended before
};
SWARMPI_FIELDS(StoreEnd, code, why, goodput);

/// Write and sync a small file where the run's journal and where its checkpoints are; answered by
/// ProbeStored.
struct StoreProbe {};
SWARMPI_FIELDS(StoreProbe);
/// What was asked of this lane and is not answered is not wanted any more: a call that is running
/// touches nothing once it returns, and nothing is answered.
struct AbandonLane {
  Lane lane = Lane::run;
};
SWARMPI_FIELDS(AbandonLane, lane);

// For collectives. Nothing of it is waited for: not for an answer, and not for an abort to end. All
// of it runs beside the jobs, on threads of its own.

/// Make what the members of a collective must have in common; answered by CollectiveIdMade, or by
/// nothing.
struct MakeCollectiveId {
  StageId stage;
  ViewNumber view;
};
SWARMPI_FIELDS(MakeCollectiveId, stage, view);
/// Begin to make the collective of a stage's replicas in a view; answered by CollectiveReady or
/// CollectiveFailed. Its `out` is a buffer of its own, which no job and no other collective writes:
/// the kernels of one that was aborted may go on for a while.
struct MakeCollective {
  StageId stage;
  ViewNumber view;
  std::string id;
  std::int64_t place = 0;    // of this member among
  std::int64_t members = 0;  // so many
};
SWARMPI_FIELDS(MakeCollective, stage, view, id, place, members);
/// Add up the stage's sums of this step over all members, and their covers by the same calls, out
/// of place: the sums are only read. Answered by CollectiveDone or CollectiveFailed. Kernels may
/// still read them after an abort, though the step is applied: an adapter keeps what they read.
struct EnterCollective {
  StageId stage;
  ViewNumber view;
  Step step;
  SealId seal;
  std::uint64_t ticket = 0;  // the same at all members, and never used before
};
SWARMPI_FIELDS(EnterCollective, stage, view, step, seal, ticket);
/// End the collective, whatever it is at. A ReduceJob that reads its `out` may be running.
struct AbortCollective {
  StageId stage;
  ViewNumber view;
  std::string why;
};
SWARMPI_FIELDS(AbortCollective, stage, view, why);

// For compute and storage.

/// Tell how far the work has come; answered at once, by WorkProbed.
struct ProbeWork {};
SWARMPI_FIELDS(ProbeWork);

// For the process.

/// Ask for a TimerDue at this time, instead of any that was asked for before.
struct SetTimer {
  double due_s = 0;
};
SWARMPI_FIELDS(SetTimer, due_s);
/// The peer is done, with this status: it handles no event any more.
struct Finish {
  Status status;
};
SWARMPI_FIELDS(Finish, status);

using Action = std::variant<Send, StartJob, KillPeer, SpawnPeer, CreateTerm, StoreRecord,
                            StoreStage, StoreManifest, LoadManifest, LoadStage, StoreEnd, SetTimer,
                            Finish, StoreProbe, AbandonLane, ProbeWork, MakeCollectiveId,
                            MakeCollective, EnterCollective, AbortCollective>;

/// Which lane of storage an action is for, if it asks storage for an answer.
inline std::optional<Lane> lane_of(const Action& action) {
  using Of = std::optional<Lane>;
  return std::visit(
      Overloaded{[](const StoreStage&) { return Of(Lane::stages); },
                 [](const LoadStage&) { return Of(Lane::stages); },
                 [](const CreateTerm&) { return Of(Lane::run); },
                 [](const StoreRecord&) { return Of(Lane::run); },
                 [](const StoreManifest&) { return Of(Lane::run); },
                 [](const LoadManifest&) { return Of(Lane::run); },
                 [](const StoreEnd&) { return Of(Lane::run); },
                 [](const StoreProbe&) { return Of(Lane::run); }, [](const auto&) { return Of(); }},
      action);
}
using Actions = std::vector<Action>;

}  // namespace swarmpi
