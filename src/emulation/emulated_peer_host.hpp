#pragma once
// A process in which emulated peers live one after another: the deck's faults happen to the one
// that lives here, and it knows which comes next.

#include <cstddef>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "core/ids.hpp"
#include "emulation/emulated_transport.hpp"
#include "hardware/preemption_trace.hpp"
#include "runtime/inbox.hpp"

namespace swarmpi {

class EmulatedPeerHost {
 public:
  /// `first` lives here at the start; `events`: all faults that the clock will inject here.
  /// `transport` is that of whoever lives here, and `inbox` wakes it.
  EmulatedPeerHost(PeerId first, const std::vector<TraceEvent>& events,
                   EmulatedTransport& transport, Inbox& inbox);
  EmulatedPeerHost(const EmulatedPeerHost&) = delete;
  EmulatedPeerHost& operator=(const EmulatedPeerHost&) = delete;

  /// Has no effect unless the event is of the peer that lives here, or lets one join here. Any
  /// thread may call.
  void inject_fault(const TraceEvent& event);
  /// The next peer, if it has joined by now: it lives here from now on.
  std::optional<PeerId> admit_next();
  /// Whether peers will still join here.
  bool expects_newcomers() const;

 private:
  mutable std::mutex mutex_;
  EmulatedTransport& transport_;
  Inbox& inbox_;
  PeerId peer_;                    // lives here, or was the last that did
  std::vector<PeerId> newcomers_;  // still to live here, in order
  std::set<PeerId> joined_;        // of these: their time has come
};

}  // namespace swarmpi
