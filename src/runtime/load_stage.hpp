#pragma once
// A stage's state from the files of a checkpoint, which may have been cut into other stages.

#include "io/checkpoint/checkpoint.hpp"
#include "model/stage_model.hpp"

namespace swarmpi {

/// Makes the stage what it was after the checkpoint's step. Errors: bad_input, where a tensor is
/// missing or of another shape.
Status load_stage(const Checkpoint& checkpoint, StageModel& stage);

}  // namespace swarmpi
