#pragma once
// A view says which peers live and which stages each serves. Any number of peers >= 1 can serve any
// number of stages.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/ids.hpp"
#include "protocol/membership/leading_order.hpp"

namespace swarmpi {

/// Views are ordered by the term of their leader, then by its count of them.
struct ViewNumber {
  Term term;
  std::int64_t number = 0;

  auto operator<=>(const ViewNumber&) const = default;
};
SWARMPI_FIELDS(ViewNumber, term, number);

/// A peer moves from one stage to another (Algorithm 2): it learns the new stage while it serves
/// the old one, then leaves that.
struct StageMove {
  PeerId peer;
  StageId from, to;

  auto operator<=>(const StageMove&) const = default;
};
SWARMPI_FIELDS(StageMove, peer, from, to);

/// How much memory each of these peers may take, as it has stated. Who is not in it has no bound.
using Budgets = std::map<PeerId, std::int64_t>;

/// The members of the swarm and what each does. A leader edits its own; what it has published is
/// shared by all peers of a process and does not change (ViewRef).
class View {
 public:
  using Roles = std::map<PeerId, std::set<StageId>>;

  View() = default;
  View(ViewNumber its_number, Roles members, Roles learners, Roles leaving,
       std::optional<StageMove> move = {}, LeadingOrder order = {}, Budgets budgets = {});

  ViewNumber number;

  /// Live peers and the stages each serves; a spare serves none.
  const Roles& members() const { return members_; }
  /// Their ids, in order.
  const std::vector<PeerId>& ids() const { return ids_; }
  /// Members that receive a stage's state and every reduced gradient, but do not serve it.
  const Roles& learners() const { return learners_; }
  /// Of the stages that a member serves, those that it is leaving: it gets no new microbatches of
  /// them if another replica can have them.
  const Roles& leaving() const { return leaving_; }

  /// The move that is under way. A member that serves several stages without a move keeps them all.
  const std::optional<StageMove>& move() const { return move_; }

  /// In which order members lead.
  const LeadingOrder& order() const { return order_; }
  /// Members that do not lead, because their storage has hung.
  std::set<PeerId> abstaining() const;

  /// Of members, in bytes: what they have said that they may take, or less where one of them had no
  /// room after all.
  const Budgets& budgets() const { return budgets_; }

  /// The first in that order: by id, where nobody has abstained yet.
  /// REQUIRES: the view has a member.
  PeerId leader() const;
  bool contains(PeerId peer) const { return std::binary_search(ids_.begin(), ids_.end(), peer); }
  bool serves(PeerId peer, StageId stage) const { return has(members_, peer, stage); }
  bool learns(PeerId peer, StageId stage) const { return has(learners_, peer, stage); }
  bool leaves(PeerId peer, StageId stage) const { return has(leaving_, peer, stage); }
  /// The peers that serve `stage`, by id.
  const std::vector<PeerId>& replicas(StageId stage) const { return of(stage).replicas; }
  /// The replicas of `stage` that are not leaving it.
  const std::vector<PeerId>& staying(StageId stage) const { return of(stage).staying; }
  /// The replicas that get microbatches of `stage`: those that stay, or all if none does.
  const std::vector<PeerId>& choices(StageId stage) const;
  /// How many of the replicas of `stage` have lower ids.
  std::size_t place(PeerId peer, StageId stage) const;
  /// The peers that learn `stage`, by id.
  const std::vector<PeerId>& learners_of(StageId stage) const { return of(stage).learners; }
  /// Members that serve a stage.
  std::int64_t serving() const { return serving_; }
  /// Members that neither serve nor learn a stage, by id.
  const std::set<PeerId>& idle() const { return idle_; }
  /// Differs after each change of this view.
  std::int64_t revision() const { return revision_; }

  // Changes. REQUIRES of learn(), set_leaving() and take_from(): the peer is a member.
  void add(PeerId peer);
  /// The peer is no member any more, and its move is over.
  void remove(PeerId peer);
  /// The peer serves the stage, and learns it no more.
  void serve(PeerId peer, StageId stage);
  void learn(PeerId peer, StageId stage);
  /// The peer is leaving the stage, or stays after all. Whether that was news.
  bool set_leaving(PeerId peer, StageId stage, bool leaves);
  /// The peer neither serves nor learns this stage any more.
  void take_from(PeerId peer, StageId stage);
  /// The peer learns the stage from now on, to serve it in place of another. REQUIRES: no move is
  /// under way.
  void begin_move(const StageMove& move);
  /// The same where the peer has no room for both: it leaves its old stage first.
  void begin_move_by_leaving(const StageMove& move);
  /// The move is over, however it ended.
  void end_move() { move_.reset(); }
  /// The member does not lead.
  void abstain(PeerId peer) { order_.abstain(peer); }
  /// It may lead again, after all others. `its_number`: in the order, as it knows it.
  void come_back(PeerId peer, std::int64_t its_number) { order_.come_back(peer, its_number); }
  /// What another knows of the order.
  void merge(const LeadingOrder& order) { order_.merge(order); }
  /// The member may take so many bytes.
  void set_budget(PeerId peer, std::int64_t bytes) { budgets_[peer] = bytes; }
  /// Everything is as in the other view. The revisions go on: what was counted before is void.
  void become(View other);

  bool operator==(const View& other) const;

 private:
  /// The peers of one stage, by id.
  struct StagePeers {
    std::vector<PeerId> replicas;
    std::vector<PeerId> staying;
    std::vector<PeerId> learners;
  };

  static bool has(const Roles& roles, PeerId peer, StageId stage);
  const StagePeers& of(StageId stage) const;
  /// Brings what is known by stage up to date for one peer's role in one stage.
  void index(PeerId peer, StageId stage);
  /// The same for what is counted of a peer.
  void index(PeerId peer);

  Roles members_;
  Roles learners_;
  Roles leaving_;
  std::optional<StageMove> move_;
  LeadingOrder order_;
  Budgets budgets_;
  // Follow from these.
  std::vector<PeerId> ids_;
  std::map<StageId, StagePeers> stages_;
  std::set<PeerId> idle_;
  std::int64_t serving_ = 0;
  std::int64_t revision_ = 0;
};

/// A view that was published.
using ViewRef = std::shared_ptr<const View>;
ViewRef share(View view);
/// Stands for the view of a peer that has none yet: nobody is in it.
ViewRef no_view();

/// The view in which workers serve the stages in proportion to the stages' costs, by largest
/// remainder, at least one each; with fewer workers than stages each serves neighbouring stages.
/// Spares serve none. `pins`: the stages of the first workers, by id; the others get what is left.
/// REQUIRES: a worker and a stage; check_ranks() has accepted the pins.
View deal_peers(const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
                const std::vector<double>& stage_costs, const std::vector<std::int64_t>& pins = {});

}  // namespace swarmpi
