#include "protocol/membership/view.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.hpp"
#include "core/contiguous_partition.hpp"

namespace swarmpi {
namespace {

/// Seats of each stage: in proportion to its cost by largest remainder, at least one each. A stage
/// whose fair share is below one gets one seat and leaves the proportion; ties go to the earlier
/// stage.
std::vector<std::int64_t> apportion(std::int64_t seats, const std::vector<double>& costs) {
  const std::size_t stages = costs.size();
  std::vector<std::int64_t> given(stages, 0);
  std::vector<std::size_t> open(stages);  // the stages still in the proportion
  std::iota(open.begin(), open.end(), std::size_t{0});
  std::int64_t left = seats;
  double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
  const auto share = [&](std::size_t s) {
    return sum > 0 ? static_cast<double>(left) * costs[s] / sum
                   : static_cast<double>(left) / static_cast<double>(open.size());
  };
  for (bool all_fair = false; !all_fair;) {
    std::vector<std::size_t> fair;
    for (const std::size_t s : open) {
      if (share(s) < 1) {
        given[s] = 1;
      } else {
        fair.push_back(s);
      }
    }
    all_fair = fair.size() == open.size();
    left -= static_cast<std::int64_t>(open.size() - fair.size());
    open = std::move(fair);
    sum = 0;
    for (const std::size_t s : open) sum += costs[s];
  }
  if (open.empty()) return given;
  std::vector<double> remainder(stages, 0.0);
  std::int64_t unseated = left;
  for (const std::size_t s : open) {
    const double fair = share(s);
    given[s] = static_cast<std::int64_t>(std::floor(fair));
    remainder[s] = fair - std::floor(fair);
    unseated -= given[s];
  }
  std::stable_sort(open.begin(), open.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (std::size_t i = 0; unseated > 0; ++i, --unseated) ++given[open[i % open.size()]];
  return given;
}

/// Seats of each stage as apportioned, where a stage has at least as many as peers are pinned to
/// it: a stage with more of them leaves the proportion. REQUIRES: seats for all of these and for
/// one peer in each other stage.
std::vector<std::int64_t> apportion(std::int64_t seats, const std::vector<double>& costs,
                                    const std::vector<std::int64_t>& pinned) {
  std::vector<std::int64_t> given = pinned;
  std::vector<std::size_t> open(costs.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  for (bool all_fair = false; !all_fair;) {
    std::int64_t left = seats;
    for (const std::int64_t taken : given) left -= taken;
    std::vector<double> open_costs;
    for (const std::size_t s : open) {
      left += given[s];
      open_costs.push_back(costs[s]);
    }
    const auto fair = apportion(left, open_costs);
    std::vector<std::size_t> still_open;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (fair[i] >= pinned[open[i]]) still_open.push_back(open[i]);
    }
    all_fair = still_open.size() == open.size();
    for (std::size_t i = 0; all_fair && i < open.size(); ++i) given[open[i]] = fair[i];
    open = std::move(still_open);
  }
  return given;
}

/// Deals peers like cards to the stages that still have seats, so that the replicas of a stage lie
/// far apart in the order of ids: on different hosts where possible.
void deal_replicas(View& view, const std::vector<PeerId>& workers,
                   std::vector<std::int64_t> seats) {
  std::size_t next = 0;
  while (next < workers.size()) {
    for (std::size_t s = 0; s < seats.size() && next < workers.size(); ++s) {
      if (seats[s] == 0) continue;
      --seats[s];
      view.serve(workers[next++], StageId(static_cast<std::int32_t>(s)));
    }
  }
}

void deal_pinned(View& view, const std::vector<PeerId>& workers, const std::vector<double>& costs,
                 const std::vector<std::int64_t>& pins) {
  std::vector<std::int64_t> pinned(costs.size(), 0);
  for (std::size_t i = 0; i < pins.size(); ++i) {
    ++pinned.at(static_cast<std::size_t>(pins[i]));
    view.serve(workers.at(i), StageId(static_cast<std::int32_t>(pins[i])));
  }
  auto seats = apportion(static_cast<std::int64_t>(workers.size()), costs, pinned);
  for (std::size_t s = 0; s < seats.size(); ++s) seats[s] -= pinned[s];
  const auto unpinned = workers.begin() + static_cast<std::ptrdiff_t>(pins.size());
  deal_replicas(view, {unpinned, workers.end()}, std::move(seats));
}

/// Each peer gets neighbouring stages, of nearly equal cost together.
void deal_neighbouring_stages(View& view, const std::vector<PeerId>& workers,
                              const std::vector<double>& costs) {
  const auto ends = partition_contiguous(costs, static_cast<std::int64_t>(workers.size()));
  std::int64_t stage = 0;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    for (; stage < ends[i]; ++stage) {
      view.serve(workers[i], StageId(static_cast<std::int32_t>(stage)));
    }
  }
}

}  // namespace

View::View(ViewNumber its_number, Roles members, Roles learners, Roles leaving,
           std::optional<StageMove> move, LeadingOrder order, Budgets budgets)
    : number(its_number),
      members_(std::move(members)),
      learners_(std::move(learners)),
      leaving_(std::move(leaving)),
      move_(move),
      order_(std::move(order)),
      budgets_(std::move(budgets)) {
  for (const Roles* roles : {&members_, &learners_}) {
    for (const auto& [peer, stages] : *roles) {
      for (const StageId stage : stages) index(peer, stage);
    }
  }
  for (const auto& [peer, stages] : members_) {
    serving_ += stages.empty() ? 0 : 1;
    index(peer);
  }
}

bool View::operator==(const View& other) const {
  return number == other.number && members_ == other.members_ && learners_ == other.learners_ &&
         leaving_ == other.leaving_ && move_ == other.move_ && order_ == other.order_ &&
         budgets_ == other.budgets_;
}

// ---- Questions

bool View::has(const Roles& roles, PeerId peer, StageId stage) {
  const auto role = roles.find(peer);
  return role != roles.end() && role->second.contains(stage);
}

PeerId View::leader() const {
  SWARMPI_CHECK(!members_.empty(), "a view has a member, its leader");
  if (order_.numbers.empty()) return ids_.front();
  return std::min_element(
             members_.begin(), members_.end(),
             [this](const auto& a, const auto& b) { return order_.comes_before(a.first, b.first); })
      ->first;
}

std::set<PeerId> View::abstaining() const {
  std::set<PeerId> peers;
  for (const auto& [peer, stages] : members_) {
    if (order_.abstains(peer)) peers.insert(peer);
  }
  return peers;
}

const View::StagePeers& View::of(StageId stage) const {
  static const StagePeers nobody;
  const auto found = stages_.find(stage);
  return found == stages_.end() ? nobody : found->second;
}

std::size_t View::place(PeerId peer, StageId stage) const {
  const std::vector<PeerId>& by_id = replicas(stage);
  return static_cast<std::size_t>(std::lower_bound(by_id.begin(), by_id.end(), peer) -
                                  by_id.begin());
}

const std::vector<PeerId>& View::choices(StageId stage) const {
  const StagePeers& peers = of(stage);
  return peers.staying.empty() ? peers.replicas : peers.staying;
}

// ---- Changes

namespace {

/// Puts the peer into the list, which is in order, or takes it out.
void set_in(std::vector<PeerId>& peers, PeerId peer, bool in) {
  const auto place = std::lower_bound(peers.begin(), peers.end(), peer);
  const bool is_in = place != peers.end() && *place == peer;
  if (in && !is_in) peers.insert(place, peer);
  if (!in && is_in) peers.erase(place);
}

/// Takes the stage out of the peer's roles. Whether it was there.
bool erase_role(View::Roles& roles, PeerId peer, StageId stage) {
  const auto role = roles.find(peer);
  if (role == roles.end() || role->second.erase(stage) == 0) return false;
  if (role->second.empty()) roles.erase(role);
  return true;
}

}  // namespace

void View::index(PeerId peer, StageId stage) {
  StagePeers& peers = stages_[stage];
  const bool replica = serves(peer, stage);
  set_in(peers.replicas, peer, replica);
  set_in(peers.staying, peer, replica && !leaves(peer, stage));
  set_in(peers.learners, peer, learns(peer, stage));
  ++revision_;
}

void View::index(PeerId peer) {
  const auto member = members_.find(peer);
  const bool idle = member != members_.end() && member->second.empty() && !learners_.contains(peer);
  if (idle) {
    idle_.insert(peer);
  } else {
    idle_.erase(peer);
  }
  set_in(ids_, peer, member != members_.end());
  ++revision_;
}

void View::add(PeerId peer) {
  if (members_.try_emplace(peer).second) order_.join(peer);
  index(peer);
}

void View::remove(PeerId peer) {
  std::set<StageId> stages;
  for (Roles* roles : {&members_, &learners_, &leaving_}) {
    const auto role = roles->find(peer);
    if (role == roles->end()) continue;
    if (roles == &members_ && !role->second.empty()) --serving_;
    stages.merge(role->second);
    roles->erase(role);
  }
  budgets_.erase(peer);
  for (const StageId stage : stages) index(peer, stage);
  index(peer);
  if (move_ && move_->peer == peer) move_.reset();
}

void View::serve(PeerId peer, StageId stage) {
  std::set<StageId>& served = members_[peer];
  if (served.empty()) ++serving_;
  served.insert(stage);
  erase_role(learners_, peer, stage);
  index(peer, stage);
  index(peer);
}

void View::learn(PeerId peer, StageId stage) {
  learners_[peer].insert(stage);
  index(peer, stage);
  index(peer);
}

bool View::set_leaving(PeerId peer, StageId stage, bool leaves) {
  const bool news =
      leaves ? leaving_[peer].insert(stage).second : erase_role(leaving_, peer, stage);
  if (news) index(peer, stage);
  return news;
}

void View::take_from(PeerId peer, StageId stage) {
  const auto served = members_.find(peer);
  if (served != members_.end() && served->second.erase(stage) > 0 && served->second.empty()) {
    --serving_;
  }
  erase_role(learners_, peer, stage);
  erase_role(leaving_, peer, stage);
  index(peer, stage);
  index(peer);
}

void View::begin_move(const StageMove& move) {
  SWARMPI_CHECK(!move_, "one move at a time");
  move_ = move;
  learn(move.peer, move.to);
}

void View::begin_move_by_leaving(const StageMove& move) {
  SWARMPI_CHECK(!move_, "one move at a time");
  move_ = move;
  set_leaving(move.peer, move.from, true);
}

void View::become(View other) {
  const std::int64_t next = std::max(revision_, other.revision_) + 1;
  *this = std::move(other);
  revision_ = next;
}

ViewRef share(View view) { return std::make_shared<const View>(std::move(view)); }

ViewRef no_view() {
  static const ViewRef none = share({});
  return none;
}

// ---- Dealing

View deal_peers(const std::vector<PeerId>& workers, const std::vector<PeerId>& spares,
                const std::vector<double>& stage_costs, const std::vector<std::int64_t>& pins) {
  SWARMPI_CHECK(!workers.empty() && !stage_costs.empty(), "a view needs a worker and a stage");
  View view;
  std::vector<PeerId> ordered = workers;
  std::sort(ordered.begin(), ordered.end());
  for (const PeerId spare : spares) view.add(spare);
  if (!pins.empty()) {
    deal_pinned(view, ordered, stage_costs, pins);
  } else if (ordered.size() < stage_costs.size()) {
    deal_neighbouring_stages(view, ordered, stage_costs);
  } else {
    deal_replicas(view, ordered, apportion(static_cast<std::int64_t>(ordered.size()), stage_costs));
  }
  return view;
}

}  // namespace swarmpi
