#pragma once
// Messages about failure, leaving, and the end of the run.

#include <string>

#include "core/field_list.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// Peer to leader: it cannot continue, and why. The leader ends the run with this status.
struct FailureMessage {
  ExitStatus code = ExitStatus::no;
  std::string why;
};
SWARMPI_FIELDS(FailureMessage, code, why);

/// Peer to leader, again in each view: it was asked to stop (a signal, a preemption notice).
/// From all members it means the run, which stops; from fewer, that these leave.
struct NoticeMessage {
  std::string why;
};
SWARMPI_FIELDS(NoticeMessage, why);

/// Leader to a peer that leaves, when nothing of it is needed any more: it announces its departure
/// and ends.
struct ReleaseMessage {};
SWARMPI_FIELDS(ReleaseMessage);

/// Leader to all, when the mark of the end is durable: the run is over, with this status. The
/// receiver answers EndHeard, and stays until all have heard it.
struct EndMessage {
  ExitStatus code = ExitStatus::good;
  std::string why;
};
SWARMPI_FIELDS(EndMessage, code, why);

inline Status status_of(const EndMessage& end) {
  return end.code == ExitStatus::good ? Status() : Status::error(end.code, end.why);
}

/// Peer to leader: it has heard the end.
struct EndHeard {};
SWARMPI_FIELDS(EndHeard);

/// Leader to all, when everybody has heard the end: finish.
struct ExitMessage {};
SWARMPI_FIELDS(ExitMessage);

}  // namespace swarmpi
