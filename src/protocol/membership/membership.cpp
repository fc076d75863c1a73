#include "protocol/membership/membership.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace swarmpi {

Membership::Membership(PeerId self, InitialMembership initial, const RunPlan& plan)
    : self_(self), initial_(std::move(initial)), plan_(plan) {
  std::sort(initial_.workers.begin(), initial_.workers.end());
  std::sort(initial_.spares.begin(), initial_.spares.end());
}

void Membership::adopt(ViewRef view) {
  const std::vector<PeerId> initial = view_ ? std::vector<PeerId>() : initial_.all();
  const std::vector<PeerId>&before = view_ ? view_->ids() : initial, &now = view->ids();
  // Most views differ from the last in one peer of thousands.
  auto [was, is] = std::mismatch(before.begin(), before.end(), now.begin(), now.end());
  while (was != before.end() || is != now.end()) {
    if (is == now.end() || (was != before.end() && *was < *is)) {
      set_dead(*was++, true);
    } else if (was == before.end() || *is < *was) {
      // A member that the new leader had not heard of, and left out, may have joined again.
      if (!lost_.contains(*is)) set_dead(*is, false);
      ++is;
    } else {
      ++was, ++is;
    }
  }
  order_.merge(view->order());
  view_ = std::move(view);
  leader_.reset();
  initial_view_.reset();
}

bool Membership::lost(PeerId peer) {
  lost_.insert(peer);
  return set_dead(peer, true);
}

bool Membership::set_dead(PeerId peer, bool dead) {
  if (is_dead(peer) == dead) return false;
  const auto index = static_cast<std::size_t>(peer.value);
  if (index >= is_dead_.size()) is_dead_.resize(index + 1);
  is_dead_[index] = dead;
  leader_.reset();
  if (dead) {
    dead_.insert(peer);
  } else {
    dead_.erase(peer);
  }
  return true;
}

const LeadingOrder& Membership::abstain(std::optional<PeerId> to) {
  leader_.reset();
  order_.abstain(self_);
  if (!to) return order_;
  if (order_.abstains(*to)) order_.come_back(*to, 0);
  for (const PeerId other : newest_view()->ids()) {
    if (order_.comes_before(other, *to)) order_.abstain(other);
  }
  return order_;
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
  for (const PeerId peer : newest_view()->ids()) {
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

PeerId Membership::find_leader() const {
  if (order_.numbers.empty()) return lowest_living();
  std::vector<PeerId> living;
  if (view_) {
    living = view_->ids();
  }
  // Before any view, or where all members of the last are dead.
  for (const PeerId peer : initial_.all()) living.push_back(peer);
  std::erase_if(living, [this](PeerId peer) { return is_dead(peer); });
  if (living.empty()) return self_;
  return *std::min_element(living.begin(), living.end(),
                           [this](PeerId a, PeerId b) { return order_.comes_before(a, b); });
}

PeerId Membership::lowest_living() const {
  std::optional<PeerId> lowest;
  const auto take = [&](PeerId peer) {
    if (is_dead(peer)) return false;
    if (!lowest || peer < *lowest) lowest = peer;
    return true;
  };
  if (view_) {
    (void)std::find_if(view_->ids().begin(), view_->ids().end(), take);
  }
  for (const auto* peers : {&initial_.workers, &initial_.spares}) {
    (void)std::find_if(peers->begin(), peers->end(), take);
  }
  return lowest.value_or(self_);
}

std::vector<PeerId> Membership::line() const {
  std::vector<PeerId> line;
  for (const PeerId peer : newest_view()->ids()) {
    if (!is_dead(peer)) line.push_back(peer);
  }
  std::sort(line.begin(), line.end(),
            [this](PeerId a, PeerId b) { return order_.comes_before(a, b); });
  return line;
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
