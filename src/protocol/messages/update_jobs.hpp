#pragma once
// Jobs that update a stage's state. Where each replica owns a range of the stage, its chunks are
// updated first, and an ApplyJob comes when all is in place.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "protocol/reduction/blocks.hpp"
#include "protocol/step/commit_record.hpp"
#include "protocol/step/state_hash.hpp"

namespace swarmpi {

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

struct ApplyResult {
  Step step;
  StageId stage;
  StateHash hash;                          // 0 of tensors that a learner does not have as a whole
  std::vector<PayloadRef> gradients = {};  // of the pieces under way; null where skipped
  std::vector<float> ratios = {};          // RatiosMessage; empty where there are none
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

}  // namespace swarmpi
