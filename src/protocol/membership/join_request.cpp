#include "protocol/membership/join_request.hpp"

#include <set>

#include "protocol/membership/membership.hpp"
#include "protocol/messages/liveness.hpp"
#include "protocol/messages/outbox.hpp"
#include "protocol/messages/views.hpp"

namespace swarmpi {

void JoinRequest::send(const Membership& membership, double now_s, Outbox& outbox) {
  if (now_s < next_s_) return;
  next_s_ = now_s + kAskAgainS;
  const InitialMembership& initial = membership.initial();
  std::set<PeerId> known(initial.join_contacts.begin(), initial.join_contacts.end());
  for (const PeerId peer : initial.all()) known.insert(peer);
  for (const auto& [peer, stages] : membership.newest_view()->members()) known.insert(peer);
  for (const PeerId peer : membership.contacts()) known.insert(peer);
  const PeerId self = membership.self();
  JoinMessage message{self};
  if (const auto own = initial.budgets.find(self); own != initial.budgets.end()) {
    message.budget_bytes = own->second;
  }
  for (const PeerId peer : known) {
    if (peer != self && !membership.is_dead(peer)) outbox.send(peer, message);
  }
  // A leader sends heartbeats to members only, but answers everybody's ping.
  const PeerId leader = membership.leader();
  if (membership.view() && leader != self) outbox.send(leader, PingMessage{now_s});
}

}  // namespace swarmpi
