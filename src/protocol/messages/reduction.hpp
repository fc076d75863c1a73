#pragma once
// Messages about the reduction of a sealed stage.

#include <cstdint>
#include <vector>

#include "core/cover.hpp"
#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/shared_doubles.hpp"
#include "protocol/reduction/gradient_facts.hpp"

namespace swarmpi {

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

/// Host to leader: it holds the whole reduced gradient of the stage, whatever seals that took. With
/// those of all replicas and learners, and if they agree, the leader commits.
struct ReducedMessage {
  Step step;
  StageId stage;
  std::int64_t attempt = 0;  // as in the seal
  GradientFacts gradient;
};
SWARMPI_FIELDS(ReducedMessage, step, stage, attempt, gradient);

}  // namespace swarmpi
