#pragma once
// The protocol's whole contact with the world: events in, actions out. Behind the actions stand
// three of the seams (transport, compute, storage); the fourth, the clock, is the `now` of every
// call.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/fixed_point.hpp"
#include "swarm/blocks.hpp"
#include "swarm/messages.hpp"

namespace swarmpi {

// ---- Compute: jobs on this peer's stages. One at a time; each is answered by one event.

/// y = stage(x) for a microbatch. In stage 0 the input is the microbatch's tokens, which compute
/// makes itself. In the last stage only validation is a ForwardJob: its answer is the loss.
struct ForwardJob {
  WorkId work;
  PayloadRef input;  // (B, T, C), null in stage 0
};

/// Backward pass of a microbatch: adds its gradients to the step's sums. In the last stage this is
/// forward, loss and backward in one, with no output gradient.
struct BackwardJob {
  WorkId work;
  PayloadRef input;            // (B, T, C), null in stage 0
  PayloadRef output_gradient;  // (B, T, C), null in the last stage
  std::shared_ptr<const Exponents> exponents;
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

/// Applies a committed step to the stage's state (if it is not skipped) and frees the step's sums.
struct ApplyJob {
  StageId stage;
  std::shared_ptr<const CommitRecord> record;
};

using Job = std::variant<ForwardJob, BackwardJob, ShareJob, ReduceJob, PlaceJob, ApplyJob>;

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
  std::vector<kernels::Contribution> contributions;  // one a tensor of the stage, in tensor order
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
struct ApplyResult {
  Step step;
  StageId stage;
  std::vector<std::uint64_t> tensor_hashes;  // of weights and moments, in tensor order
};
using JobResult = std::variant<ForwardResult, BackwardResult, ShareResult, ReduceResult,
                               PlaceResult, ApplyResult>;

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
/// A term file was created, or somebody else had it already.
struct TermCreated {
  Term term;
  bool created = false;
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
/// Storage cannot go on: stopped (no room, an I/O error), or failed (what is stored contradicts
/// itself).
struct StorageFailed {
  Status status;
};
/// The completion mark is on disk.
struct CompletionDurable {};
/// A person or a batch system asks for checkpoint and stop.
struct StopRequested {
  std::string why;
};
struct TimerDue {};

using Event = std::variant<Started, MessageArrived, JobFinished, PeerLost, TermCreated,
                           RecordDurable, StageStored, CheckpointDurable, StorageFailed,
                           CompletionDurable, StopRequested, TimerDue>;

// ---- Actions

struct Send {
  PeerId to;
  Message message;
};
struct StartJob {
  Job job;
};
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
/// Mark the run complete; answered by CompletionDurable.
struct StoreCompletion {};
/// Ask for a TimerDue at this time, instead of any that was asked for before.
struct SetTimer {
  double due_s = 0;
};
/// The peer is done: nothing will be asked of it any more.
struct Finish {
  Status status;
};

using Action = std::variant<Send, StartJob, CreateTerm, StoreRecord, StoreStage, StoreManifest,
                            StoreCompletion, SetTimer, Finish>;
using Actions = std::vector<Action>;

}  // namespace swarmpi
