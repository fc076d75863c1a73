#pragma once
// Jobs of a reduction.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/cover.hpp"
#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "core/records.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

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

}  // namespace swarmpi
