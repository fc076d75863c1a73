#pragma once
// Where emulated peers live, one after another: what the deck has happen to them, and who comes
// next.

#include <cstddef>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "core/ids.hpp"
#include "hardware/preemption_trace.hpp"
#include "runtime/inbox.hpp"
#include "transport/emulated_process.hpp"

namespace swarmpi {

class EmulatedPeerHost {
 public:
  /// `first` lives here; `events`: all that will happen here by the clock.
  EmulatedPeerHost(PeerId first, const std::vector<TraceEvent>& events, Inbox& inbox);
  EmulatedPeerHost(const EmulatedPeerHost&) = delete;
  EmulatedPeerHost& operator=(const EmulatedPeerHost&) = delete;

  EmulatedProcess& emulated_process() { return emulated_process_; }
  /// The event happens, if its peer is the one that lives here; or comes here. Any thread may call.
  void inject_fault(const TraceEvent& event);
  /// The one who lives here leaves, with all that was said to it.
  void clear();
  /// The next one who has come, who lives here from now on; nothing if nobody has.
  std::optional<PeerId> admit_next();
  /// Whether more will come.
  bool expects_newcomers() const;

 private:
  mutable std::mutex mutex_;
  Inbox& inbox_;
  EmulatedProcess emulated_process_;
  PeerId peer_;                  // the last that came
  bool vacant_ = false;          // and has gone
  std::vector<PeerId> to_come_;  // in order
  std::set<PeerId> here_;        // of these: have come
};

}  // namespace swarmpi
