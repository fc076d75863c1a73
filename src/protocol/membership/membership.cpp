#include "protocol/membership/membership.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace swarmpi {

Membership::Membership(PeerId self, InitialMembership initial, const RunPlan& plan)
    : self_(self), initial_(std::move(initial)), plan_(plan) {}

void Membership::adopt(ViewRef view) {
  for (const auto& [peer, stages] : newest_view()->members()) {
    if (!view->contains(peer)) dead_.insert(peer);
  }
  // A member that the new leader had not heard of, and left out, may have joined again.
  std::erase_if(dead_, [&](PeerId peer) { return view->contains(peer) && !lost_.contains(peer); });
  abstaining_.insert(view->abstaining().begin(), view->abstaining().end());
  view_ = std::move(view);
  initial_view_.reset();
}

bool Membership::lost(PeerId peer) {
  lost_.insert(peer);
  return dead_.insert(peer).second;
}

void Membership::abstain(PeerId peer, std::optional<PeerId> to) {
  abstaining_.insert(peer);
  if (!to) return;  // else, also where it has gone: all must agree on who is the next
  for (const auto& [other, stages] : newest_view()->members()) {
    if (other < *to) abstaining_.insert(other);
  }
}

const ViewRef& Membership::newest_view() const {
  if (view_) return view_;
  if (!initial_view_) initial_view_ = share(first_view(plan_, initial_));
  return initial_view_;
}

bool Membership::contains(PeerId peer) const {
  return view_ ? view_->contains(peer) : initial_.contains(peer);
}

std::vector<PeerId> Membership::others() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, stages] : newest_view()->members()) {
    if (peer != self_ && !is_dead(peer)) peers.push_back(peer);
  }
  return peers;
}

std::set<PeerId> Membership::contacts() const {
  std::set<PeerId> peers;
  std::set_difference(contacts_.begin(), contacts_.end(), dead_.begin(), dead_.end(),
                      std::inserter(peers, peers.end()));
  return peers;
}

PeerId Membership::leader() const {
  std::vector<PeerId> living;
  if (view_) {
    for (const auto& [peer, stages] : view_->members()) living.push_back(peer);
  }
  // Before any view, or where all members of the last are dead.
  for (const PeerId peer : initial_.all()) living.push_back(peer);
  std::erase_if(living, [this](PeerId peer) { return is_dead(peer); });
  if (living.empty()) return self_;
  const auto leads =
      std::find_if(living.begin(), living.end(), [this](PeerId peer) { return !abstains(peer); });
  return leads == living.end() ? living.front() : *leads;
}

bool Membership::others_can_lead() const {
  const std::vector<PeerId> all = others();
  return std::any_of(all.begin(), all.end(), [this](PeerId peer) { return !abstains(peer); });
}

std::string Membership::obituary(PeerId peer) const {
  const auto said = obituaries_.find(peer);
  return said == obituaries_.end() ? "" : said->second;
}

}  // namespace swarmpi
