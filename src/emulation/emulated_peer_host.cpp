#include "emulation/emulated_peer_host.hpp"

#include <utility>

#include "core/check.hpp"

namespace swarmpi {

EmulatedPeerHost::EmulatedPeerHost(PeerId first, const std::vector<TraceEvent>& events,
                                   Inbox& inbox)
    : inbox_(inbox), peer_(first) {
  for (const TraceEvent& event : events) {
    if (event.event == "join") newcomers_.emplace_back(static_cast<std::int32_t>(event.peer));
  }
}

void EmulatedPeerHost::inject_fault(const TraceEvent& event) {
  const std::lock_guard lock(mutex_);
  const PeerId peer(static_cast<std::int32_t>(event.peer));
  if (event.event == "join") {
    joined_.insert(peer);
    return inbox_.wake();
  }
  if (event.event == "kill") std::erase(newcomers_, peer);  // may be killed before it lives here
  if (peer_ != peer) return;
  if (event.event == "notice") {
    if (!vacant_ && !emulated_process_.dead)
      inbox_.post(StopRequested{"preemption notice from faults.trace"});
    return;
  }
  if (event.event == "kill") emulated_process_.dead = true;
  if (event.event == "stop" || event.event == "continue")
    emulated_process_.stopped = event.event == "stop";
  if (event.event == "cut" || event.event == "heal") emulated_process_.cut = event.event == "cut";
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
