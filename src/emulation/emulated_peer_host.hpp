#pragma once
// A process in which emulated peers live one after another: the deck's faults happen to the one
// that lives here, and it knows which comes next.

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
  /// `first` lives here at the start; `events`: all faults that the clock will inject here.
  EmulatedPeerHost(PeerId first, const std::vector<TraceEvent>& events, Inbox& inbox);
  EmulatedPeerHost(const EmulatedPeerHost&) = delete;
  EmulatedPeerHost& operator=(const EmulatedPeerHost&) = delete;

  EmulatedProcess& emulated_process() { return emulated_process_; }
  /// Has no effect unless the event is of the peer that lives here, or lets one join here. Any
  /// thread may call.
  void inject_fault(const TraceEvent& event);
  /// The peer that lives here is gone, with all events in its inbox.
  void clear();
  /// The next peer, if it has joined by now: it lives here from now on.
  std::optional<PeerId> admit_next();
  /// Whether peers will still join here.
  bool expects_newcomers() const;

 private:
  mutable std::mutex mutex_;
  Inbox& inbox_;
  EmulatedProcess emulated_process_;
  PeerId peer_;                    // lives here, or was the last that did
  bool vacant_ = false;            // it does not any more
  std::vector<PeerId> newcomers_;  // still to live here, in order
  std::set<PeerId> joined_;        // of these: their time has come
};

}  // namespace swarmpi
