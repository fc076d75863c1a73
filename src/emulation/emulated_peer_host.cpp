#include "emulation/emulated_peer_host.hpp"

#include <utility>

#include "core/check.hpp"

namespace swarmpi {

EmulatedPeerHost::EmulatedPeerHost(PeerId first, const std::vector<TraceEvent>& events,
                                   Inbox& inbox)
    : inbox_(inbox), peer_(first) {
  for (const TraceEvent& event : events) {
    if (event.event == FaultEvent::join)
      newcomers_.emplace_back(static_cast<std::int32_t>(event.peer));
  }
}

void EmulatedPeerHost::inject_fault(const TraceEvent& event) {
  const std::lock_guard lock(mutex_);
  const PeerId peer(static_cast<std::int32_t>(event.peer));
  if (event.event == FaultEvent::join) {
    joined_.insert(peer);
    return inbox_.wake();
  }
  if (event.event == FaultEvent::kill)
    std::erase(newcomers_, peer);  // may be killed before it lives here
  if (peer_ != peer) return;
  if (event.event == FaultEvent::notice) {
    if (!vacant_ && !emulated_process_.dead)
      inbox_.post(StopRequested{"preemption notice from [faults] in the deck"});
    return;
  }
  if (event.event == FaultEvent::kill) emulated_process_.dead = true;
  if (event.event == FaultEvent::stop || event.event == FaultEvent::go_on)
    emulated_process_.stopped = event.event == FaultEvent::stop;
  if (event.event == FaultEvent::cut || event.event == FaultEvent::heal)
    emulated_process_.cut = event.event == FaultEvent::cut;
  inbox_.wake();
}

void EmulatedPeerHost::clear() {
  {
    const std::lock_guard lock(mutex_);
    vacant_ = true;
  }
  while (inbox_.take()) {
  }
}

std::optional<PeerId> EmulatedPeerHost::admit_next() {
  const std::lock_guard lock(mutex_);
  if (newcomers_.empty() || !joined_.contains(newcomers_.front())) return std::nullopt;
  peer_ = newcomers_.front();
  newcomers_.erase(newcomers_.begin());
  vacant_ = false;
  emulated_process_.reset();
  return peer_;
}

bool EmulatedPeerHost::expects_newcomers() const {
  const std::lock_guard lock(mutex_);
  return !newcomers_.empty();
}

}  // namespace swarmpi
