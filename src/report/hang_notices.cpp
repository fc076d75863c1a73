#include "report/hang_notices.hpp"

#include <fmt/core.h>

#include <utility>
#include <variant>

#include "protocol/messages/message.hpp"
#include "protocol/messages/stalls.hpp"
#include "protocol/messages/transport_port.hpp"

namespace swarmpi {

void HangNotices::happened(double, PeerId self, const Event& event) {
  if (const auto* failed = get_if<KillFailed>(&event)) return waits_for(self, failed->peer);
  if (const auto* lost = get_if<PeerLost>(&event)) {
    ordered_.erase(lost->peer);
    waited_for_.erase(lost->peer);
  }
  const auto* arrived = get_if<MessageArrived>(&event);
  if (arrived == nullptr) return;
  if (!ordered_.empty()) {
    ordered_.erase(arrived->from);
    waited_for_.erase(arrived->from);
  }
  if (const auto* late = get_if<LateMessage>(&arrived->message.body)) hears(*late, arrived->from);
  if (holds_alternative<AbleMessage>(arrived->message.body))
    say(fmt::format("storage of peer {} works again: it may lead", arrived->from.value));
}

// An order is repeated where the first has come to nothing.
void HangNotices::asked(double, PeerId self, const Action& action) {
  const auto* kill = get_if<KillPeer>(&action);
  if (kill != nullptr && ++ordered_[kill->peer] > 1) waits_for(self, kill->peer);
}

// Peers tell it again in each view.
void HangNotices::hears(const LateMessage& message, PeerId from) {
  const std::pair key(from, message.task);
  if (!message.late) {
    told_.erase(key);
    return;
  }
  if (std::exchange(told_[key], message.what) == message.what) return;
  const char* const kind = message.task == Task::job ? "a job" : "storage";
  say(fmt::format("{} of peer {} hangs: {}, for {:.1f} s", kind, from.value, message.what,
                  message.since_s));
}

void HangNotices::waits_for(PeerId self, PeerId peer) {
  if (!waited_for_.insert(peer).second) return;
  say(
      fmt::format("peer {} does not answer, and nobody can kill it now: peer {} waits for it, for "
                  "{:g} s at most",
                  peer.value, self.value, give_up_after_s_));
}

void HangNotices::say(const std::string& what) {
  if (before_) before_();
  std::fprintf(out_, "swarmpi: warning: %s\n", what.c_str());
  std::fflush(out_);
}

}  // namespace swarmpi
