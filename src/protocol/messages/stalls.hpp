#pragma once
// Messages about jobs, loading and storage that hang.

#include <cstdint>
#include <string>

#include "core/field_list.hpp"
#include "protocol/membership/leading_order.hpp"

namespace swarmpi {

/// What a peer does beside handling events, and what may hang while it goes on to answer others.
/// `load`: its stages, where all have gone back to a checkpoint; until then it can do no job.
enum class Task : std::uint8_t { job, storage, load };
constexpr Task last_of(Task) { return Task::load; }

/// Peer to leader, again in each view: a job of the sender is late, or a call of its storage, or
/// of its loading, does not return; or it goes on after all. The leader records it, and finds out
/// who can help.
struct LateMessage {
  Task task = Task::job;
  bool late = false;  ///< false: it goes on
  std::string what;   ///< for people
  double since_s = 0;
};
SWARMPI_FIELDS(LateMessage, task, late, what, since_s);

/// Leader to a peer that might do the work of one whose job or storage hangs: do a small piece of
/// such work, and answer when it is done.
struct TryMessage {
  std::int64_t number = 0;
  Task task = Task::job;
};
SWARMPI_FIELDS(TryMessage, number, task);

/// Answer to that.
struct TriedMessage {
  std::int64_t number = 0;
};
SWARMPI_FIELDS(TriedMessage, number);

/// Leader to a peer whose job is late, or that cannot load its stages, when others have shown that
/// they can do its work: it tells all that it is gone, and ends, unless it has gone on meanwhile.
struct ResignMessage {
  std::string why;
};
SWARMPI_FIELDS(ResignMessage, why);

/// From a peer whose storage hangs to all others: it leads no more. It goes on to serve its stages;
/// the first in line leads. Without a reason: from a peer that tells the order on, since whoever
/// led, or told it, has died.
struct AbstainMessage {
  std::string why;
  LeadingOrder order;  // first in it: a peer that has shown that it can store, if one has
};
SWARMPI_FIELDS(AbstainMessage, why, order);

/// From a peer that abstains to the leader, again in each view: its storage works, it may lead.
/// The leader's next view says so.
struct AbleMessage {
  std::int64_t number = 0;  // its own in the order, as it knows it
};
SWARMPI_FIELDS(AbleMessage, number);

}  // namespace swarmpi
