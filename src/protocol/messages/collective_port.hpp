#pragma once
// Actions for collectives, and their events. Nothing of it is waited for: not for an answer, and
// not for an abort to end. All of it runs beside the jobs, on threads of its own.

#include <cstdint>
#include <string>

#include "core/cover.hpp"
#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "protocol/membership/view.hpp"

namespace swarmpi {

// ---- Actions

/// Make what the members of a collective must have in common; answered by CollectiveIdMade, or by
/// nothing.
struct MakeCollectiveId {
  StageId stage;
  ViewNumber view;
};
SWARMPI_FIELDS(MakeCollectiveId, stage, view);

/// Begin to make the collective of a stage's replicas in a view; answered by CollectiveReady or
/// CollectiveFailed. Its `out` is a buffer of its own, which no job and no other collective writes:
/// the kernels of one that was aborted may go on for a while.
struct MakeCollective {
  StageId stage;
  ViewNumber view;
  std::string id;
  std::int64_t place = 0;    // of this member among
  std::int64_t members = 0;  // so many
};
SWARMPI_FIELDS(MakeCollective, stage, view, id, place, members);

/// Add up the stage's sums of this step over all members, and their covers by the same calls, out
/// of place: the sums are only read. Answered by CollectiveDone or CollectiveFailed. Kernels may
/// still read them after an abort, though the step is applied: an adapter keeps what they read.
struct EnterCollective {
  StageId stage;
  ViewNumber view;
  Step step;
  SealId seal;
  std::uint64_t ticket = 0;  // the same at all members, and never used before
};
SWARMPI_FIELDS(EnterCollective, stage, view, step, seal, ticket);

/// End the collective, whatever it is at. A ReduceJob that reads its `out` may be running.
struct AbortCollective {
  StageId stage;
  ViewNumber view;
  std::string why;
};
SWARMPI_FIELDS(AbortCollective, stage, view, why);

// ---- Events

/// The answer to MakeCollectiveId.
struct CollectiveIdMade {
  StageId stage;
  ViewNumber view;
  std::string id;  // bytes
};
SWARMPI_FIELDS(CollectiveIdMade, stage, view, id);

/// It is made: all members have begun to make it, and something has gone through.
struct CollectiveReady {
  StageId stage;
  ViewNumber view;
};
SWARMPI_FIELDS(CollectiveReady, stage, view);

/// What was entered is added up, here and, as they have told each other, at all members: `out`
/// holds the sums. An adapter says so only if no error stands and no abort had begun here.
struct CollectiveDone {
  StageId stage;
  ViewNumber view;
  SealId seal;
  Cover cover;  // of all members' sums, added by the same calls
};
SWARMPI_FIELDS(CollectiveDone, stage, view, seal, cover);

/// The collective has come to its end: an error, or a deadline. What it was at counts nothing.
struct CollectiveFailed {
  StageId stage;
  ViewNumber view;
  std::string why;
};
SWARMPI_FIELDS(CollectiveFailed, stage, view, why);

}  // namespace swarmpi
