#pragma once
// Every message of the protocol with its fields. Payloads are opaque handles: the protocol never
// looks inside.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/fixed_point.hpp"
#include "swarm/bitmap.hpp"
#include "swarm/view.hpp"

namespace swarmpi {

/// Activations or gradients at a stage boundary. Compute and transport know what stands behind it.
class Payload {
 public:
  virtual ~Payload() = default;
  virtual std::size_t size_bytes() const = 0;
};
using PayloadRef = std::shared_ptr<const Payload>;

/// Leader to all: who serves what from now on.
struct ViewMessage {
  View view;
};

/// Source to a peer of stage 0: work on this microbatch.
struct IssueMessage {
  MicrobatchId microbatch;
};

/// Activations to the next stage.
struct ForwardMessage {
  WorkId work;
  PayloadRef activations;
};

/// Gradients back to the peer that sent the activations.
struct BackwardMessage {
  WorkId work;
  PayloadRef gradient;
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
  std::uint64_t state_hash = 0;
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
};

/// Peer to leader: asked to stop (a signal).
struct NoticeMessage {
  std::string why;
};
/// Leader to all: nothing more will come; finish with this status.
struct EndMessage {
  ExitStatus code = ExitStatus::good;
  std::string why;
};

using MessageBody =
    std::variant<ViewMessage, IssueMessage, ForwardMessage, BackwardMessage, ReportMessage,
                 SealMessage, SealAnswer, ReducedMessage, CommitMessage, CheckpointMessage,
                 StageStoredMessage, NoticeMessage, EndMessage>;

/// What every message carries: older incarnations are dropped, newer views are waited for.
struct Message {
  Incarnation incarnation;
  ViewNumber view;
  MessageBody body;
};

}  // namespace swarmpi
