#pragma once
// Messages about microbatches: their passes, and their repair after a death.

#include <map>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/messages/message_kinds.hpp"

namespace swarmpi {

/// The path of a microbatch that is repaired: which peers hold it in the stages to come, and how
/// far it has to go. It is followed as long as all of them serve their stages.
struct Path {
  ViewNumber planned_in;  // of two paths the later counts
  std::map<StageId, PeerId> holders;
  StageId last;  // the holder of the stage behind it has the gradient that is missing, or will

  bool operator==(const Path&) const = default;
};
SWARMPI_FIELDS(Path, planned_in, holders, last);

/// Source to a replica of stage 0: work on this microbatch.
struct IssueMessage {
  MicrobatchId microbatch;
  PathRef path;
};
SWARMPI_FIELDS(IssueMessage, microbatch, path);

/// Host to a replica of the next stage, when a forward pass is done: work on these activations.
struct ForwardMessage {
  WorkId work;
  PayloadRef activations;  // (B, T, C)
  PathRef path;
};
SWARMPI_FIELDS(ForwardMessage, work, activations, path);

/// Host to the peer that chose it for a microbatch in this stage, when the job is done: how long it
/// took. Feeds the chooser's router.
struct ForwardDone {
  StageId stage;
  double compute_s = 0;
};
SWARMPI_FIELDS(ForwardDone, stage, compute_s);

/// Host to the peer that sent the activations, when a backward pass is done: their gradient, with
/// which the receiver makes its own backward pass.
struct BackwardMessage {
  WorkId work;
  PayloadRef gradient;  // (B, T, C)
};
SWARMPI_FIELDS(BackwardMessage, work, gradient);

// ---- Microbatches that are repaired after a death

/// Leader to a host: what this work led to is lost; send its output again, along this path.
struct ResendMessage {
  WorkId work;
  PathRef path;
};
SWARMPI_FIELDS(ResendMessage, work, path);

/// Host at the end of a path to the holder behind it, which has the work already: the gradient of
/// its input shall go to the sender, not to the dead.
struct RedirectMessage {
  WorkId work;
};
SWARMPI_FIELDS(RedirectMessage, work);

/// Host to leader: what a repair of this microbatch counted on is not here, or it is needed once
/// more. The leader asks for tables and plans again.
struct UnableMessage {
  MicrobatchId microbatch;
};
SWARMPI_FIELDS(UnableMessage, microbatch);

}  // namespace swarmpi
