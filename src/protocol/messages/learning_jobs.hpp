#pragma once
// Jobs of learning a stage and leaving one, and of showing that jobs can be done.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "protocol/reduction/blocks.hpp"
#include "protocol/step/commit_record.hpp"

namespace swarmpi {

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

/// Opens the data files anew, and reads a microbatch as its passes do, to no further end.
struct TryJob {
  StageId stage;
  MicrobatchId microbatch;
};
SWARMPI_FIELDS(TryJob, stage, microbatch);

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

}  // namespace swarmpi
