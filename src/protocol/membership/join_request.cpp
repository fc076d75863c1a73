#include "protocol/membership/join_request.hpp"

#include <set>

namespace swarmpi {

void JoinRequest::send(const Membership& membership, double now_s, Outbox& outbox) {
  const InitialMembership& initial = membership.initial();
  std::set<PeerId> known(initial.join_contacts.begin(), initial.join_contacts.end());
  for (const PeerId peer : initial.all()) known.insert(peer);
  for (const auto& [peer, stages] : membership.newest_view()->members()) known.insert(peer);
  const PeerId self = membership.self();
  for (const PeerId peer : known) {
    if (peer != self && !membership.is_dead(peer)) outbox.send(peer, JoinMessage{self});
  }
  // A leader sends heartbeats to members only, but answers everybody's ping.
  if (membership.view() && !membership.leads()) {
    outbox.send(membership.leader(), PingMessage{now_s});
  }
  next_s_ = now_s + kAskAgainS;
}

}  // namespace swarmpi
