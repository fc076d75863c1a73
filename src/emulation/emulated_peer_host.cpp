#include "emulation/emulated_peer_host.hpp"

namespace swarmpi {

EmulatedPeerHost::EmulatedPeerHost(PeerId first, const std::vector<TraceEvent>& events,
                                   EmulatedTransport& transport, Inbox& inbox)
    : transport_(transport), inbox_(inbox), peer_(first) {
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
  if (peer_ == peer) transport_.inject_fault(event.event);
}

std::optional<PeerId> EmulatedPeerHost::admit_next() {
  const std::lock_guard lock(mutex_);
  if (newcomers_.empty() || !joined_.contains(newcomers_.front())) return std::nullopt;
  peer_ = newcomers_.front();
  newcomers_.erase(newcomers_.begin());
  transport_.admit(peer_);
  return peer_;
}

bool EmulatedPeerHost::expects_newcomers() const {
  const std::lock_guard lock(mutex_);
  return !newcomers_.empty();
}

}  // namespace swarmpi
