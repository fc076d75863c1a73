#pragma once
// Every message of the protocol with its fields. The protocol never looks into payloads.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/fixed_point.hpp"
#include "swarm/bitmap.hpp"
#include "swarm/view.hpp"

namespace swarmpi {

/// Leader to all: who serves what from now on.
struct ViewMessage {
  View view;
};

/// Source to a peer of stage 0: work on this microbatch.
struct IssueMessage {
  MicrobatchId microbatch;
  double sent_s = 0;  // on the sender's clock; comes back in ForwardDone
};

/// Activations to the next stage.
struct ForwardMessage {
  WorkId work;
  PayloadRef activations;  // (B, T, C)
  double sent_s = 0;       // on the sender's clock; comes back in ForwardDone
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

/// One peer's share of a sealed stage: exactly these microbatches are in its accumulator.
struct SealShare {
  StageId stage;
  PeerId peer;
  Bitmap microbatches;
};
/// Leader to all: freeze if your accumulators carry exactly this.
struct SealMessage {
  SealId seal;
  Step step;
  std::vector<SealShare> shares;  // of each stage disjoint, together all M
  bool skipped = false;           // a flag was raised: nothing will be reduced
};

/// Peer to leader: agreed and frozen, or refused because its accumulator carries something else.
struct SealAnswer {
  SealId seal;
  StageId stage;
  bool frozen = false;
  Bitmap carried;  // what the accumulator carries, where refused
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

/// Peer to leader: holds the whole reduced gradient of the stage.
struct ReducedMessage {
  SealId seal;
  StageId stage;
  std::vector<double> squares;  // one a tensor of the stage; empty where skipped
};

/// All that a peer needs to apply a step, the same bits for everyone.
struct CommitRecord {
  Step step;
  SealId seal;
  double loss = 0;  // mean nats per token, summed in index order
  std::int64_t tokens = 0;
  double grad_norm = 0;  // NaN where skipped
  float clip = 1;
  float lr = 0;
  float correction1 = 1;  // 1 - beta1^t
  float correction2 = 1;
  bool skipped = false;
  std::int64_t applied_updates = 0;  // this one included
  std::int64_t skips_in_a_row = 0;
  Exponents next_exponents;           // E(step + d)
  std::vector<std::int32_t> flagged;  // tensors that raised a flag, for the message
};

/// Leader to all: the step is committed.
struct CommitMessage {
  std::shared_ptr<const CommitRecord> record;
};

/// Where a part of a checkpoint lies, and what it must hash to.
struct StoredFile {
  std::string name;
  std::uint64_t hash = 0;
  std::int64_t size_bytes = 0;
};
/// Leader to one replica of each stage: write your state as of `step`.
struct CheckpointMessage {
  Step step;
  StageId stage;
};
/// Peer to leader: the stage's part is durable.
struct StageStoredMessage {
  Step step;
  StageId stage;
  StoredFile file;
  std::vector<std::uint64_t> tensor_hashes;  // of what was written, in tensor order
};

/// Peer to leader: asked to stop (a signal).
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
/// Leader to all: nothing more will come; finish with this status.
struct EndMessage {
  ExitStatus code = ExitStatus::good;
  std::string why;
};
/// Peer to leader: has heard the end.
struct EndHeard {};

using MessageBody =
    std::variant<ViewMessage, IssueMessage, ForwardMessage, ForwardDone, BackwardMessage,
                 ReportMessage, SealMessage, SealAnswer, ShareMessage, ChunkMessage, ReducedMessage,
                 CommitMessage, CheckpointMessage, StageStoredMessage, NoticeMessage,
                 FailureMessage, HeartbeatMessage, EndMessage, EndHeard>;

/// What every message carries: older incarnations are dropped, newer views are waited for.
struct Message {
  Incarnation incarnation;
  ViewNumber view;
  MessageBody body;
};

}  // namespace swarmpi
