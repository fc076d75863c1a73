#pragma once
// Messages about the commit of a step. WeightsMessage and WeightsPlaced follow it where each
// replica owns a range of its stage (method "zero_offload").

#include <cstdint>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

/// Leader to all, when a step is decided; again after a succession, and to newcomers. The receiver
/// applies the update and forgets the step's microbatches.
struct CommitMessage {
  CommitRef record;
  Step written;       // rows up to this step are durable: what they were made from is not needed
  Step checkpointed;  // the newest checkpoint that is durable
};
SWARMPI_FIELDS(CommitMessage, record, written, checkpointed);

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

}  // namespace swarmpi
