#include "protocol/method/room_layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/text.hpp"
#include "protocol/method/layout.hpp"

namespace swarmpi {
namespace {

constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();
// Trials of a stage at a peer. All deals of 4 stages to 12 peers are a tenth of them.
constexpr std::int64_t kMostTrials = 200'000;
constexpr std::size_t kMostShown = 8;  // stages, or kinds of peers, in a message

using Peers = std::vector<PeerId>;

StageId stage_at(std::size_t s) { return StageId(static_cast<std::int32_t>(s)); }

std::int64_t may_take(const Budgets& budgets, PeerId peer) {
  const auto stated = budgets.find(peer);
  return stated == budgets.end() ? kNoBound : stated->second;
}

View with_budgets(View view, const Budgets& budgets) {
  for (const auto& [peer, bytes] : budgets) {
    if (view.contains(peer)) view.set_budget(peer, bytes);
  }
  return view;
}

// ---- Each stage to one peer

/// Finds for each stage one peer, by trying all that differ.
class DealSearch {
 public:
  DealSearch(const MemoryNeeds& needs, const std::vector<double>& costs,
             std::vector<StageId> stages, const Peers& peers, const Budgets& budgets)
      : needs_(needs), costs_(costs), stages_(std::move(stages)) {
    const auto larger = [&](StageId a, StageId b) {
      return needs.of(a).serving_bytes > needs.of(b).serving_bytes;
    };
    std::stable_sort(stages_.begin(), stages_.end(), larger);  // the hardest to place first
    for (const PeerId peer : peers) {
      seats_.push_back({peer, may_take(budgets, peer) - needs.peer_bytes});
    }
    // A large budget is kept for what needs it.
    std::stable_sort(seats_.begin(), seats_.end(),
                     [](const Seat& a, const Seat& b) { return a.left_bytes < b.left_bytes; });
    taken_.resize(stages_.size());
  }

  /// The peer of each stage.
  std::optional<std::map<StageId, PeerId>> find() {
    place(0, 0);
    return best_;
  }

 private:
  struct Seat {
    PeerId peer;
    std::int64_t left_bytes = 0;
    double load = 0;
  };

  bool over() const { return trials_ >= kMostTrials; }

  void place(std::size_t at, double busiest) {
    if (best_ && busiest >= best_busiest_) return;
    if (at == stages_.size()) return note(busiest);
    const StageId stage = stages_[at];
    const std::int64_t bytes = needs_.of(stage).serving_bytes_of(1);
    const double cost = costs_.at(static_cast<std::size_t>(stage.value));
    for (const std::size_t s : order()) {
      Seat& seat = seats_[s];
      if (over()) return;
      ++trials_;
      if (seat.left_bytes < bytes) continue;
      seat.left_bytes -= bytes;
      seat.load += cost;
      taken_[at] = seat.peer;
      place(at + 1, std::max(busiest, seat.load));
      seat.left_bytes += bytes;
      seat.load -= cost;
    }
  }

  /// Seats that differ, those with the least to do first.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> places;
    for (std::size_t s = 0; s < seats_.size(); ++s) {
      const bool same = s > 0 && seats_[s].left_bytes == seats_[s - 1].left_bytes &&
                        seats_[s].load == seats_[s - 1].load;
      if (!same) places.push_back(s);
    }
    std::stable_sort(places.begin(), places.end(), [this](std::size_t a, std::size_t b) {
      return seats_[a].load < seats_[b].load;
    });
    return places;
  }

  void note(double busiest) {
    best_busiest_ = busiest;
    best_.emplace();
    for (std::size_t i = 0; i < stages_.size(); ++i) (*best_)[stages_[i]] = taken_[i];
  }

  const MemoryNeeds& needs_;
  const std::vector<double>& costs_;
  std::vector<StageId> stages_;
  std::vector<Seat> seats_;
  Peers taken_;  // by place in stages_
  std::int64_t trials_ = 0;
  std::optional<std::map<StageId, PeerId>> best_;
  double best_busiest_ = 0;
};

// ---- SWARM

bool is_served(const View& view, StageId stage) { return !view.replicas(stage).empty(); }

/// Gives each of the workers that serve nothing yet the stage that needs it most, of those that it
/// has room for.
void deal_the_rest(View& view, const RunPlan& plan, Peers workers, const Budgets& budgets) {
  std::stable_sort(workers.begin(), workers.end(),
                   [&](PeerId a, PeerId b) { return may_take(budgets, a) < may_take(budgets, b); });
  for (const PeerId peer : workers) {
    view.add(peer);
    if (!view.members().at(peer).empty()) continue;
    std::optional<StageId> neediest;
    double most = 0;
    for (std::size_t s = 0; s < plan.stage_costs.size(); ++s) {
      const StageId stage = stage_at(s);
      const double need = plan.stage_costs[s] / static_cast<double>(view.replicas(stage).size());
      const bool has_room = least_bytes(plan.needs, {stage}, {}) <= may_take(budgets, peer);
      if (!has_room || (neediest && need <= most)) continue;
      neediest = stage;
      most = need;
    }
    if (neediest) view.serve(peer, *neediest);
  }
}

/// Stages without a pinned peer go to `peers`; then the workers that are left to where they are
/// needed.
std::optional<View> search_deal(const RunPlan& plan, const Peers& peers, const Peers& workers,
                                const Peers& others, const Budgets& budgets,
                                const std::vector<std::int64_t>& pins) {
  View view;
  Peers free = peers;
  for (std::size_t i = 0; i < pins.size(); ++i) {
    const PeerId pinned = workers.at(i);
    view.serve(pinned, stage_at(static_cast<std::size_t>(pins[i])));
    std::erase(free, pinned);
  }
  std::vector<StageId> stages;
  for (std::size_t s = 0; s < plan.stage_costs.size(); ++s) {
    if (!is_served(view, stage_at(s))) stages.push_back(stage_at(s));
  }
  const auto found =
      DealSearch(plan.needs, plan.stage_costs, std::move(stages), free, budgets).find();
  if (!found) return std::nullopt;
  for (const auto& [stage, peer] : *found) view.serve(peer, stage);
  for (const PeerId peer : others) view.add(peer);
  deal_the_rest(view, plan, workers, budgets);
  view = with_budgets(std::move(view), budgets);
  return fits(plan.needs, view) ? std::optional(std::move(view)) : std::nullopt;
}

// ---- Static pipelines

/// One peer for each stage of each pipeline, none of which serves two: the largest stages go to
/// those with the largest budgets, so that there is no deal if this is none.
std::optional<View> deal_pipelines_in_room(const RunPlan& plan, Peers peers,
                                           const Budgets& budgets) {
  const std::size_t stages = plan.stage_costs.size();
  std::stable_sort(peers.begin(), peers.end(),
                   [&](PeerId a, PeerId b) { return may_take(budgets, a) > may_take(budgets, b); });
  std::vector<StageId> by_size;
  for (std::size_t s = 0; s < stages; ++s) by_size.push_back(stage_at(s));
  std::stable_sort(by_size.begin(), by_size.end(), [&](StageId a, StageId b) {
    return plan.needs.of(a).serving_bytes > plan.needs.of(b).serving_bytes;
  });
  // The last of those to which a stage goes has the least.
  const auto fit = [&](std::size_t pipelines) {
    for (std::size_t i = 0; i < stages; ++i) {
      const PeerId last = peers[(i + 1) * pipelines - 1];
      const std::int64_t owners = static_cast<std::int64_t>(pipelines);
      if (least_bytes(plan.needs, {by_size[i]}, {}, owners) > may_take(budgets, last)) return false;
    }
    return true;
  };
  std::size_t pipelines = peers.size() / stages;
  while (pipelines > 0 && !fit(pipelines)) --pipelines;
  if (pipelines == 0) return std::nullopt;
  View view;
  for (const PeerId peer : peers) view.add(peer);
  for (std::size_t i = 0; i < pipelines * stages; ++i) view.serve(peers[i], by_size[i / pipelines]);
  return view;
}

std::optional<View> search_pipelines(const RunPlan& plan, const Peers& workers, const Peers& others,
                                     const Budgets& budgets) {
  if (auto view = deal_pipelines_in_room(plan, workers, budgets)) {
    for (const PeerId peer : others) view->add(peer);
    return with_budgets(*std::move(view), budgets);
  }
  Peers all = workers;
  all.insert(all.end(), others.begin(), others.end());
  return search_deal(plan, workers, {}, all, budgets, {});
}

std::optional<View> deal_to(const RunPlan& plan, const Peers& peers, const Peers& workers,
                            const Peers& others, const Budgets& budgets,
                            const std::vector<std::int64_t>& pins) {
  if (peers.empty()) return std::nullopt;
  if (plan.swarm.has_pipelines()) return search_pipelines(plan, peers, others, budgets);
  return search_deal(plan, peers, workers, others, budgets, pins);
}

Peers sorted(Peers peers) {
  std::sort(peers.begin(), peers.end());
  return peers;
}

Peers both(const Peers& some, const Peers& more) {
  Peers all = some;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

std::optional<View> lay_out_in_room(const RunPlan& plan, const Hands& hands,
                                    const Budgets& budgets) {
  const Peers workers = sorted(hands.workers), spares = sorted(hands.spares),
              last = sorted(hands.last);
  if (!workers.empty()) {
    View view = with_budgets(
        lay_out(plan.swarm.method, workers, both(spares, last), plan.stage_costs, hands.pins),
        budgets);
    if (!plan.needs.known() || fits(plan.needs, view)) return view;
    auto found = deal_to(plan, workers, workers, both(spares, last), budgets, hands.pins);
    if (found) return found;
  }
  const Peers most = both(workers, spares);
  if (!spares.empty()) {
    if (auto found = deal_to(plan, most, workers, both(spares, last), budgets, hands.pins))
      return found;
  }
  if (last.empty()) return std::nullopt;
  return deal_to(plan, both(most, last), workers, both(spares, last), budgets, hands.pins);
}

// ---- For people

namespace {

std::string size_text(std::int64_t bytes) { return readable_bytes(static_cast<double>(bytes)); }

std::string stages_text(const MemoryNeeds& needs) {
  std::vector<std::size_t> by_size(needs.stages.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return needs.stages[a].serving_bytes > needs.stages[b].serving_bytes;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostShown, by_size.size()); ++i) {
    const StageNeeds& stage = needs.stages[by_size[i]];
    text += fmt::format("{}stage {} needs {}", i == 0 ? "" : ", ", by_size[i],
                        size_text(stage.serving_bytes));
    if (stage.owned_bytes > 0) {
      text += fmt::format(", and {} between its replicas", size_text(stage.owned_bytes));
    }
  }
  if (by_size.size() > kMostShown) {
    text += fmt::format(", {} others not more", by_size.size() - kMostShown);
  }
  return text + fmt::format(", each peer {} besides", size_text(needs.peer_bytes));
}

std::string budgets_text(const Peers& peers, const Budgets& budgets) {
  std::map<std::int64_t, std::set<std::int64_t>, std::greater<>> by_budget;
  for (const PeerId peer : peers) by_budget[may_take(budgets, peer)].insert(peer.value);
  std::string text;
  std::size_t shown = 0;
  for (const auto& [bytes, ids] : by_budget) {
    if (++shown > kMostShown) return text + fmt::format(", the others less");
    text += fmt::format("{}peer{} {} may take {}", shown == 1 ? "" : ", ",
                        ids.size() == 1 ? "" : "s", number_list(ids), size_text(bytes));
  }
  return text;
}

/// The least budget of one more peer with which there is a deal; none: whatever it may take, there
/// is none.
std::optional<std::int64_t> enough_bytes(const RunPlan& plan, const Hands& hands, Budgets budgets) {
  const PeerId another(std::numeric_limits<std::int32_t>::max());
  const Peers workers = sorted(hands.workers);
  Peers all = both(both(workers, sorted(hands.spares)), sorted(hands.last));
  all.push_back(another);
  const auto is_enough = [&](std::int64_t bytes) {
    budgets[another] = bytes;
    return deal_to(plan, all, workers, {}, budgets, hands.pins).has_value();
  };
  std::int64_t most = plan.needs.peer_bytes;
  for (const StageNeeds& stage : plan.needs.stages) most += stage.serving_bytes_of(1);
  if (!is_enough(most)) return std::nullopt;
  std::int64_t least = 0;  // is not enough
  while (most - least > std::max<std::int64_t>(most / 1000, 1)) {
    const std::int64_t middle = least + (most - least) / 2;
    (is_enough(middle) ? most : least) = middle;
  }
  return most;
}

/// Why one more peer that can hold all stages would not help: for who is pinned to what it cannot
/// hold.
std::string pins_text(const RunPlan& plan, const Hands& hands, const Budgets& budgets) {
  const Peers workers = sorted(hands.workers);
  const auto stage_of = [&](std::size_t i) {
    return stage_at(static_cast<std::size_t>(hands.pins[i]));
  };
  const auto has_room = [&](std::size_t i) {
    return least_bytes(plan.needs, {stage_of(i)}, {}) <= may_take(budgets, workers.at(i));
  };
  std::size_t i = 0;
  while (i < hands.pins.size() && has_room(i)) ++i;
  if (i == hands.pins.size()) return "no deal was found with one more peer, either";
  return fmt::format("swarm.pins gives peer {} stage {}, for which it has no room",
                     workers[i].value, stage_of(i).value);
}

}  // namespace

std::string shortage(const RunPlan& plan, const Hands& hands, const Budgets& budgets) {
  const Peers peers = sorted(both(both(hands.workers, hands.spares), hands.last));
  const std::optional<std::int64_t> enough = enough_bytes(plan, hands, budgets);
  return fmt::format(
      "{}; {}; {}", stages_text(plan.needs), budgets_text(peers, budgets),
      enough ? fmt::format("one more peer that may take {} would be enough", size_text(*enough))
             : pins_text(plan, hands, budgets));
}

}  // namespace swarmpi
