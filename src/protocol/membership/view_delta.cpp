#include "protocol/membership/view_delta.hpp"

#include <utility>

#include "core/hash.hpp"

namespace swarmpi {
namespace {

template <class Value>
Value of_peer(const std::map<PeerId, Value>& by_peer, PeerId peer) {
  const auto found = by_peer.find(peer);
  return found == by_peer.end() ? Value() : found->second;
}

PeerRoles roles_in(const View& view, PeerId peer) {
  PeerRoles roles;
  roles.peer = peer;
  roles.member = view.contains(peer);
  roles.serves = of_peer(view.members(), peer);
  roles.learns = of_peer(view.learners(), peer);
  roles.leaves = of_peer(view.leaving(), peer);
  const auto budget = view.budgets().find(peer);
  if (budget != view.budgets().end()) roles.budget_bytes = budget->second;
  return roles;
}

void add_peers(const View& view, std::set<PeerId>& peers) {
  for (const auto* roles : {&view.members(), &view.learners(), &view.leaving()}) {
    for (const auto& [peer, stages] : *roles) peers.insert(peers.end(), peer);
  }
  for (const auto& [peer, bytes] : view.budgets()) peers.insert(peers.end(), peer);
}

class Words {
 public:
  void add(std::int64_t word) { words_.push_back(static_cast<std::uint64_t>(word)); }
  void add(const View::Roles& roles) {
    add(static_cast<std::int64_t>(roles.size()));
    for (const auto& [peer, stages] : roles) {
      add(peer.value);
      add(static_cast<std::int64_t>(stages.size()));
      for (const StageId stage : stages) add(stage.value);
    }
  }
  void add(const std::map<PeerId, std::int64_t>& numbers) {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const auto& [peer, number] : numbers) {
      add(peer.value);
      add(number);
    }
  }
  std::uint64_t hash() const {
    return hash_bytes(words_.data(), words_.size() * sizeof(std::uint64_t));
  }

 private:
  std::vector<std::uint64_t> words_;
};

std::uint64_t hash_of(const View& view) {
  Words words;
  words.add(view.number.term.value);
  words.add(view.number.number);
  for (const auto* roles : {&view.members(), &view.learners(), &view.leaving()}) words.add(*roles);
  words.add(view.move() ? 1 : 0);
  if (const auto& move = view.move()) {
    words.add(move->peer.value);
    words.add(move->from.value);
    words.add(move->to.value);
  }
  words.add(view.order().numbers);
  words.add(view.budgets());
  return words.hash();
}

void assign_roles(View::Roles& all, PeerId peer, const std::set<StageId>& stages) {
  if (stages.empty()) {
    all.erase(peer);
  } else {
    all[peer] = stages;
  }
}

}  // namespace

ViewDelta delta_between(const View& base, const View& next) {
  ViewDelta delta;
  delta.base = base.number;
  delta.number = next.number;
  std::set<PeerId> peers;
  add_peers(base, peers);
  add_peers(next, peers);
  for (const PeerId peer : peers) {
    PeerRoles roles = roles_in(next, peer);
    if (roles != roles_in(base, peer)) delta.changed.push_back(std::move(roles));
  }
  delta.move = next.move();
  if (next.order() != base.order()) delta.order = next.order();
  delta.hash = hash_of(next);
  return delta;
}

ViewRef apply(const ViewDelta& delta, const View& base) {
  if (base.number != delta.base) return nullptr;
  View::Roles members = base.members(), learners = base.learners(), leaving = base.leaving();
  Budgets budgets = base.budgets();
  for (const PeerRoles& roles : delta.changed) {
    if (roles.member) {
      members[roles.peer] = roles.serves;
    } else {
      members.erase(roles.peer);
    }
    assign_roles(learners, roles.peer, roles.learns);
    assign_roles(leaving, roles.peer, roles.leaves);
    budgets.erase(roles.peer);
    if (roles.budget_bytes) budgets[roles.peer] = *roles.budget_bytes;
  }
  ViewRef next = share({delta.number, std::move(members), std::move(learners), std::move(leaving),
                        delta.move, delta.order.value_or(base.order()), std::move(budgets)});
  return hash_of(*next) == delta.hash ? next : nullptr;
}

}  // namespace swarmpi
