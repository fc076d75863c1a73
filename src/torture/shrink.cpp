#include "torture/shrink.hpp"

#include <algorithm>
#include <vector>

#include "simulation/real_compute_factory.hpp"

namespace swarmpi {
namespace {

/// Makes a swarm smaller in one way. False if there is nothing left to take away.
using Cut = std::function<bool(RandomSwarm&)>;

template <class Value>
bool set(Value& value, const Value& to) {
  if (value == to) return false;
  value = to;
  return true;
}

bool set_steps(RandomSwarm& swarm, std::int64_t steps) {
  if (steps < 1 || steps >= swarm.plan.train.steps) return false;
  swarm.plan.train.steps = steps;
  if (swarm.deck) swarm.deck->train.steps = steps;
  return true;
}

bool set_microbatches(RandomSwarm& swarm, std::int64_t microbatches) {
  if (microbatches < 1 || microbatches >= swarm.plan.train.microbatches) return false;
  swarm.plan.train.microbatches = swarm.model.microbatches = microbatches;
  if (swarm.deck) swarm.deck->train.microbatches = microbatches;
  return true;
}

// Two neighbouring stages become one.
bool merge_stages(RandomSwarm& swarm, std::size_t first) {
  RunPlan& plan = swarm.plan;
  if (first + 1 >= plan.stage_tensors.size()) return false;
  if (swarm.deck) {
    lay_out(plan, swarm.deck->model, plan.stages() - 1);
  } else {
    const auto next = static_cast<std::ptrdiff_t>(first) + 1;
    const auto& tensors = plan.stage_tensors[first + 1];
    plan.stage_tensors[first].insert(plan.stage_tensors[first].end(), tensors.begin(),
                                     tensors.end());
    plan.stage_tensors.erase(plan.stage_tensors.begin() + next);
    plan.stage_costs[first] += plan.stage_costs[first + 1];
    plan.stage_costs.erase(plan.stage_costs.begin() + next);
  }
  plan.swarm.stages = plan.stages();
  plan.swarm.pins.clear();
  const StageId last(static_cast<std::int32_t>(plan.stages()) - 1);
  for (Fault& kill : swarm.faults.all) kill.stage = std::min(kill.stage, last);
  for (Move& move : plan.moves) move.to = std::min(move.to, last);
  return true;
}

bool remove_peer(RandomSwarm& swarm, std::vector<PeerId>& from) {
  const bool worker = &from == &swarm.membership.workers;
  if (from.size() <= (worker ? 1u : 0u)) return false;
  // Ids need not be dense: the others keep theirs.
  const PeerId peer = from.back();
  from.pop_back();
  swarm.plan.swarm.spares = static_cast<std::int64_t>(swarm.membership.spares.size());
  if (!is_possible(swarm)) swarm.plan.swarm.pins.clear();
  if (swarm.stop) {
    std::erase(swarm.stop->peers, peer);
    if (swarm.stop->peers.empty()) swarm.stop.reset();
  }
  return true;
}

// The part that would go on after a stop, from the beginning.
bool skip_to_next_part(RandomSwarm& swarm) {
  if (!swarm.stop) return false;
  swarm = draw_other_swarm(swarm, mix_bits(swarm.seed));
  return true;
}

bool lower_count(Fault& kill, std::int64_t count) {
  if (count < 1 || count >= kill.count) return false;
  kill.count = count;
  return true;
}

void add_cuts_of_kills(std::vector<Cut>& cuts, std::size_t kills) {
  for (std::size_t k = 0; k < kills; ++k) {
    cuts.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      if (k >= all.size()) return false;
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(k));
      return true;
    });
    cuts.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      return k < all.size() && set(all[k].more, std::int64_t{0});
    });
    cuts.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      return k < all.size() && lower_count(all[k], all[k].count / 2);
    });
    cuts.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      return k < all.size() && lower_count(all[k], all[k].count * 7 / 8);
    });
  }
}

void add_cuts_of_size(std::vector<Cut>& cuts) {
  cuts.emplace_back([](auto& s) { return set_steps(s, 1); });
  cuts.emplace_back([](auto& s) { return set_steps(s, s.plan.train.steps / 2); });
  cuts.emplace_back([](auto& s) { return set_steps(s, s.plan.train.steps - 1); });
  cuts.emplace_back([](auto& s) { return set_microbatches(s, 1); });
  cuts.emplace_back([](auto& s) { return set_microbatches(s, s.plan.train.microbatches / 2); });
  cuts.emplace_back([](auto& s) { return set_microbatches(s, s.plan.train.microbatches - 1); });
  cuts.emplace_back([](auto& s) { return remove_peer(s, s.membership.spares); });
  cuts.emplace_back([](auto& s) { return remove_peer(s, s.membership.workers); });
  for (std::size_t first = 0; first < 4; ++first) {
    cuts.emplace_back([first](auto& s) { return merge_stages(s, first); });
  }
}

void add_cuts_of_features(std::vector<Cut>& cuts) {
  cuts.emplace_back([](auto& s) {
    if (!s.stop) return false;
    s.stop.reset();
    return true;
  });
  cuts.emplace_back([](auto& s) {
    if (s.plan.swarm.pins.empty()) return false;
    s.plan.swarm.pins.clear();
    return true;
  });
  cuts.emplace_back([](auto& s) { return set(s.plan.validate_every, std::int64_t{0}); });
  cuts.emplace_back([](auto& s) { return set(s.plan.checkpoint_every, std::int64_t{0}); });
  cuts.emplace_back([](auto& s) { return set(s.model.flag_chance, 0.0); });
  cuts.emplace_back([](auto& s) {
    if (s.deck) s.deck->train.updates = "synchronous";
    return set(s.plan.train.updates, std::string("synchronous"));
  });
  cuts.emplace_back([](auto& s) { return set(s.plan.swarm.wiring, std::string("round_robin")); });
  cuts.emplace_back(
      [](auto& s) { return set(s.plan.reduction_chunk_elements, std::int64_t{1} << 17); });
  cuts.emplace_back([](auto& s) { return set(s.plan.window, std::int64_t{1}); });
  cuts.emplace_back([](auto& s) { return set(s.clock_offset_most_s, 0.0); });
  cuts.emplace_back([](auto& s) { return set(s.start_most_s, 0.0); });
  cuts.emplace_back([](auto& s) { return set(s.disks.most_s, 0.0); });
  cuts.emplace_back([](auto& s) {
    s.disks.breaks.reset();
    return set(s.disks.room, std::optional<std::int64_t>());
  });
  cuts.emplace_back([](auto& s) {
    if (s.plan.moves.empty()) return false;
    s.plan.moves.pop_back();
    return true;
  });
  cuts.emplace_back([](auto& s) {
    if (s.joins.empty()) return false;
    s.joins.pop_back();
    return true;
  });
  cuts.emplace_back([](auto& s) { return set(s.plan.swarm.shadows, std::int64_t{0}); });
  cuts.emplace_back([](auto& s) { return set(s.links.jitter, 0.0); });
  cuts.emplace_back([](auto& s) { return set(s.links.twice_chance, 0.0); });
  cuts.emplace_back([](auto& s) { return set(s.links.spike_chance, 0.0); });
  cuts.emplace_back([](auto& s) { return set(s.links.delays_itself, false); });
  cuts.emplace_back([](auto& s) { return set(s.costs.noise, 0.0); });
  cuts.emplace_back([](auto& s) { return set(s.costs.speed_ratio, 1.0); });
}

}  // namespace

RandomSwarm shrink(const RandomSwarm& swarm, const std::function<bool(const RandomSwarm&)>& fails,
                   std::int64_t most_trials) {
  std::vector<Cut> cuts{skip_to_next_part};
  add_cuts_of_kills(cuts, 6);
  add_cuts_of_size(cuts);
  add_cuts_of_features(cuts);
  RandomSwarm smallest = swarm;
  std::int64_t trials = 0;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Cut& cut : cuts) {
      for (RandomSwarm next = smallest; trials < most_trials && cut(next); next = smallest) {
        ++trials;
        if (!fails(next)) break;
        smallest = next;
        smaller = true;
      }
    }
  }
  return smallest;
}

}  // namespace swarmpi
