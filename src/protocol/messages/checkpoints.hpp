#pragma once
// Messages about checkpoints.

#include <cstdint>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/records.hpp"

namespace swarmpi {

/// Leader to one replica of each stage, or to all where each owns a range, when a checkpoint is
/// due: write your state as of `step`.
struct CheckpointMessage {
  Step step;
  StageId stage;
};
SWARMPI_FIELDS(CheckpointMessage, step, stage);

/// Host to leader: the stage's part is durable, or cannot be written any more. With the parts of
/// all stages the leader writes the manifest.
struct StageStoredMessage {
  Step step;
  StageId stage;
  bool stored = false;
  StoredFile file;
  std::vector<std::uint64_t> tensor_hashes;  // of what was written, in tensor order
  std::string why_not = {};  // its storage hangs; "" where it is not stored: the state has moved on
};
SWARMPI_FIELDS(StageStoredMessage, step, stage, stored, file, tensor_hashes, why_not);

}  // namespace swarmpi
