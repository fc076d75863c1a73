#pragma once
// Messages about the seal of a step.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/bitmap.hpp"

namespace swarmpi {

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

}  // namespace swarmpi
