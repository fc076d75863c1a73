#pragma once
// What one peer knows of the others: the newest view, who has died or left since, and so who leads.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/flat_set.hpp"
#include "protocol/membership/initial_membership.hpp"
#include "protocol/membership/view.hpp"
#include "protocol/run_plan.hpp"

namespace swarmpi {

class Membership {
 public:
  /// `plan` outlives it.
  Membership(PeerId self, InitialMembership initial, const RunPlan& plan);

  // ---- What is heard

  /// The view is newer than the last. Who is not in it any more counts as dead; a member that was
  /// only left out of an earlier view, not lost, lives.
  void adopt(ViewRef view);
  /// The peer has died, as was heard. Whether that is news.
  bool lost(PeerId peer);
  /// The peer has announced its departure in good order.
  void left(PeerId peer) { left_.insert(peer); }
  /// This peer does not lead from now on: its storage hangs. `to`: a peer that has shown that it
  /// can store. Members before it have not, perhaps because they share a host: they do not lead,
  /// either. The order that all are to know.
  const LeadingOrder& abstain(std::optional<PeerId> to);
  /// The peer may lead again, after all others. `number`: its own in the order, as it knows it.
  void come_back(PeerId peer, std::int64_t number) {
    if (order_.number_of(peer) <= number) order_.come_back(peer, number);
    leader_.reset();
  }
  /// Another peer abstains: the order as it knows it.
  void merge(const LeadingOrder& order) {
    order_.merge(order);
    leader_.reset();
  }
  /// What a peer that gave itself up has said of it, for people.
  void obituary(PeerId peer, const std::string& why) { obituaries_[peer] = why; }
  /// The peer may be in a newer view: it has asked to join, or takes this peer for the next leader.
  void heard_of(PeerId peer) { contacts_.insert(peer); }

  // ---- What is known

  PeerId self() const { return self_; }
  const InitialMembership& initial() const { return initial_; }
  /// The last view; null before the first.
  const ViewRef& view() const { return view_; }
  /// Its number; before the first, one below all.
  ViewNumber view_number() const { return view_ ? view_->number : ViewNumber(); }
  /// The last view, or, before any, the one that the run is to begin with.
  const ViewRef& newest_view() const;
  /// How many are in the last view, or, before any, at the start.
  std::size_t members() const {
    return view_ ? view_->members().size() : initial_.workers.size() + initial_.spares.size();
  }
  /// Whether that view contains the peer.
  bool contains(PeerId peer) const;
  const FlatSet<PeerId>& dead() const { return dead_; }
  bool is_dead(PeerId peer) const {
    const auto index = static_cast<std::size_t>(peer.value);
    return index < is_dead_.size() && is_dead_[index];
  }
  bool has_left(PeerId peer) const { return left_.contains(peer); }
  bool abstains(PeerId peer) const { return order_.abstains(peer); }
  /// In which order peers lead.
  const LeadingOrder& order() const { return order_; }
  bool somebody_has_abstained() const { return !order_.numbers.empty(); }
  /// "" if it said nothing.
  std::string obituary(PeerId peer) const;
  /// The live members but for this peer, by id.
  std::vector<PeerId> others() const;
  /// Live peers that may be in a newer view.
  std::set<PeerId> contacts() const;

  /// The first live member in the order in which they lead.
  PeerId leader() const {
    if (!leader_) leader_ = find_leader();
    return *leader_;
  }
  /// The live members in that order.
  std::vector<PeerId> line() const;
  /// Whether another live member could lead: it does not abstain.
  bool others_can_lead() const;
  bool leads() const { return leader() == self_; }
  /// Whether this peer came later than the start.
  bool is_newcomer() const { return !initial_.contains(self_); }
  /// Whether it is a newcomer that no view has let in.
  bool is_outsider() const { return !view_ && is_newcomer(); }
  /// Whether an outsider is the next in line: those of the start are dead, and there is somebody
  /// who may have a view to inquire of.
  bool is_taken_for_leader() const { return leads() && !contacts().empty(); }

 private:
  PeerId find_leader() const;
  /// The leader while nobody has ever abstained.
  PeerId lowest_living() const;
  /// Whether that is news.
  bool set_dead(PeerId peer, bool dead);

  PeerId self_;
  InitialMembership initial_;  // by id
  const RunPlan& plan_;
  mutable ViewRef initial_view_;  // made if it is asked for before any view
  ViewRef view_;
  FlatSet<PeerId> dead_;       // as was heard, or as the view says
  std::vector<bool> is_dead_;  // the same by id: small, for it is asked at each message
  // Asked for at each event; none: not known since the view, the dead or the order changed.
  mutable std::optional<PeerId> leader_;
  FlatSet<PeerId> lost_;      // of these: as was heard
  FlatSet<PeerId> left_;      // this peer, too, once it has left
  FlatSet<PeerId> contacts_;  // dead ones included
  LeadingOrder order_;
  std::map<PeerId, std::string> obituaries_;
};

}  // namespace swarmpi
