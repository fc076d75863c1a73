#pragma once
// The rows of a table: what a peer has of open steps and of their microbatches.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/bitmap.hpp"
#include "protocol/messages/message_kinds.hpp"
#include "protocol/reduction/contribution.hpp"

namespace swarmpi {

/// What a peer has still to do with a microbatch in one stage.
enum class Phase : std::uint8_t {
  to_forward,   // its forward pass is due, or runs
  passed_on,    // the next stage has the output: the gradient is waited for
  to_backward,  // its backward pass is due, or runs
  over,         // only what was sent is kept
};
constexpr Phase last_of(Phase) { return Phase::over; }

/// What a peer has of a microbatch in one stage.
struct WorkRow {
  WorkId work;
  Phase phase = Phase::to_forward;
  std::optional<PeerId> sent_to;         // of the output
  std::optional<ViewNumber> planned_in;  // its path, if it is repaired
  StageId last;                          // likewise
  bool path_broken = false;              // its path names a dead peer: waits for another one
  bool keeps_output = false;
  bool gives_gradient = false;  // has the input's gradient, or will
};
SWARMPI_FIELDS(WorkRow, work, phase, sent_to, planned_in, last, path_broken, keeps_output,
               gives_gradient);

/// What a peer has of an open step in one stage.
struct StageRow {
  Step step;
  StageId stage;
  Bitmap contributed;
  std::vector<kernels::Contribution> tensors;  // over these microbatches, in tensor order
  std::int64_t chunk_replicas = 0;             // replicas that the chunks are cut for; 0: not yet
  std::vector<std::int32_t> chunks;            // of the reduced gradient that are in place
  std::int64_t attempt = 0;                    // at which they were made
};
SWARMPI_FIELDS(StageRow, step, stage, contributed, tensors, chunk_replicas, chunks, attempt);

}  // namespace swarmpi
