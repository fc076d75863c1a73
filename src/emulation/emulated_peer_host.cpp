#include "emulation/emulated_peer_host.hpp"

#include <utility>

#include "core/check.hpp"

namespace swarmpi {

EmulatedPeerHost::EmulatedPeerHost(PeerId first, const std::vector<TraceEvent>& events,
                                   Inbox& inbox)
    : inbox_(inbox), peer_(first) {
  for (const TraceEvent& event : events) {
    if (event.event == "join") to_come_.emplace_back(static_cast<std::int32_t>(event.peer));
  }
}

void EmulatedPeerHost::inject_fault(const TraceEvent& event) {
  const std::lock_guard lock(mutex_);
  const PeerId peer(static_cast<std::int32_t>(event.peer));
  if (event.event == "join") {
    here_.insert(peer);
    return inbox_.wake();
  }
  if (event.event == "kill") std::erase(to_come_, peer);  // before it could come
  if (peer_ != peer) return;
  if (event.event == "notice") {
    if (!vacant_ && !emulated_process_.dead) inbox_.post(StopRequested{"told to go by the deck"});
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
  if (to_come_.empty() || !here_.contains(to_come_.front())) return std::nullopt;
  peer_ = to_come_.front();
  to_come_.erase(to_come_.begin());
  vacant_ = false;
  emulated_process_.begin_anew();
  return peer_;
}

bool EmulatedPeerHost::expects_newcomers() const {
  const std::lock_guard lock(mutex_);
  return !to_come_.empty();
}

}  // namespace swarmpi
