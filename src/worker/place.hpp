#pragma once
// Where emulated peers live, one after another: what the deck has happen to them, and who comes
// next.

#include <cstddef>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "core/ids.hpp"
#include "faults/fate.hpp"
#include "faults/trace.hpp"
#include "worker/inbox.hpp"

namespace swarmpi {

class Place {
 public:
  /// `first` lives here; `events`: all that will happen here by the clock.
  Place(PeerId first, const std::vector<TraceEvent>& events, Inbox& inbox);
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  Fate& fate() { return fate_; }
  /// The event happens, if its peer is the one that lives here; or comes here. Any thread may call.
  void strike(const TraceEvent& event);
  /// The one who lives here leaves, with all that was said to it.
  void vacate();
  /// The next one who has come, who lives here from now on; nothing if nobody has.
  std::optional<PeerId> settle_next();
  /// Whether more will come.
  bool awaits_more() const;

 private:
  mutable std::mutex mutex_;
  Inbox& inbox_;
  Fate fate_;
  PeerId peer_;                  // the last that came
  bool vacant_ = false;          // and has gone
  std::vector<PeerId> to_come_;  // in order
  std::set<PeerId> here_;        // of these: have come
};

}  // namespace swarmpi
