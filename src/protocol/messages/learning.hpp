#pragma once
// Messages about learning and loading a stage.

#include <cstdint>
#include <string>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

/// Learner to a replica: send the state of these blocks, as of this step or a later one.
struct FetchMessage {
  StageId stage;
  BlockRange blocks;
  Step at_least;
};
SWARMPI_FIELDS(FetchMessage, stage, blocks, at_least);

/// Answer to a fetch: a piece of the state, as of `step`. The learner writes it, and brings it up
/// to date with the updates that it has kept since.
struct PieceMessage {
  StageId stage;
  BlockRange blocks;
  Step step;
  std::uint64_t hash = 0;  // of what was read
  PayloadRef state;        // all versions of the weights, and the moments
};
SWARMPI_FIELDS(PieceMessage, stage, blocks, step, hash, state);

/// Replica to learners, after each LAMB update: the trust ratio of each tensor. Who has only pieces
/// of a tensor cannot know it.
struct RatiosMessage {
  StageId stage;
  Step step;
  std::vector<float> ratios;  // in tensor order
};
SWARMPI_FIELDS(RatiosMessage, stage, step, ratios);

/// Learner to leader, when the whole state of the stage is here, and after each update then. The
/// leader makes it a replica if its hashes are those that all agreed on.
struct LearnedMessage {
  StageId stage;
  Step step;
  std::vector<std::uint64_t> tensors;  // hash of each, in tensor order; empty: not applied yet
};
SWARMPI_FIELDS(LearnedMessage, stage, step, tensors);

/// Peer to leader, again in each view: there is no memory left for this stage, which it is to
/// learn or to load. The leader lowers its budget, and gives the stage to another.
struct NoRoomMessage {
  StageId stage;
};
SWARMPI_FIELDS(NoRoomMessage, stage);

/// Peer to leader, again in each view: the stage, which it is to load, cannot be had from the
/// checkpoint that all went back to in this incarnation, for that is damaged. All go back once
/// more.
struct DamagedMessage {
  StageId stage;
  Incarnation incarnation;
  std::string why;  // with the checkpoint's path
};
SWARMPI_FIELDS(DamagedMessage, stage, incarnation, why);

}  // namespace swarmpi
