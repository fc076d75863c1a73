#pragma once
// Actions for the process, and its events.

#include <string>

#include "core/field_list.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// The first event of every peer.
struct Started {};
SWARMPI_FIELDS(Started);

/// A person or a batch system asks for a checkpoint and a stop.
struct StopRequested {
  std::string why;
};
SWARMPI_FIELDS(StopRequested, why);

/// The time of the last SetTimer has come.
struct TimerDue {};
SWARMPI_FIELDS(TimerDue);

/// Ask for a TimerDue at this time, instead of any that was asked for before.
struct SetTimer {
  double due_s = 0;
};
SWARMPI_FIELDS(SetTimer, due_s);

/// The peer is done, with this status: it handles no event any more.
struct Finish {
  Status status;
};
SWARMPI_FIELDS(Finish, status);

}  // namespace swarmpi
