// The keys of [output].

#include "config/schema/keys.hpp"

namespace swarmpi {
namespace {

template <auto member>
Field output() {
  return field_at<&in_section<&Config::output, member>>();
}

}  // namespace

Keys output_keys() {
  using O = OutputConfig;
  return {
      {.name = "run",
       .field = output<&O::run>(),
       .on_resume = kMayChange,
       .help =
           "run file (HDF5); its journal is the folder beside it with .journal added to the name"},
      {.name = "checkpoint",
       .field = output<&O::checkpoint>(),
       .on_resume = kMayChange,
       .help =
           "folder of the checkpoints, of this run alone; empty: RUN.checkpoints beside RUN.h5"},
      {.name = "checkpoint_every",
       .field = output<&O::checkpoint_every>(),
       .unit = "steps",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help =
           "steps from one checkpoint to the next; 0: by time alone. There is always one at the "
           "end of the run and when it is stopped"},
      {.name = "checkpoint_every_s",
       .field = output<&O::checkpoint_every_s>(),
       .unit = "s",
       .range = duration_or_none(),
       .on_resume = kMayChange,
       .help =
           "time from one checkpoint to the next; 0: by steps alone. Static pipelines that know "
           "how often peers die write them as often as loses least time instead"},
      {.name = "keep",
       .field = output<&O::keep>(),
       .range = at_least(1),
       .on_resume = kMayChange,
       .help = "checkpoints that are kept; older ones are deleted"},
      {.name = "publish_every_s",
       .field = output<&O::publish_every_s>(),
       .unit = "s",
       .range = duration(),
       .on_resume = kMayChange,
       .help = "time between two renewals of the run file from the journal"},
      {.name = "storage_timeout_s",
       .field = output<&O::storage_timeout_s>(),
       .unit = "s",
       .range = duration(),
       .on_resume = kMayChange,
       .help =
           "time after which a call of the file system that has not returned is given up: a part "
           "of a checkpoint is not waited for any more, a leader hands over; who cannot load its "
           "stages so long is given up, if others of them can"},
      {.name = "validate_every",
       .field = output<&O::validate_every>(),
       .unit = "steps",
       .range = at_least(0),
       .on_resume = kMayChange,
       .help = "steps from one measurement of the held-out loss to the next; 0: never"},
  };
}

}  // namespace swarmpi
