#include "torture/shrink.hpp"

#include <algorithm>
#include <vector>

#include "simulation/real_compute.hpp"

namespace swarmpi {
namespace {

/// Makes a swarm smaller in one way. False if there is nothing left to take away.
using Simplification = std::function<bool(RandomSwarm&)>;

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

// With fewer peers, or other stages, memory is not bounded any more where it would not do.
void keep_room(RandomSwarm& swarm) {
  if (!first_deal(swarm.plan, swarm.membership)) swarm.plan.needs = {};
}

// Two neighbouring stages become one.
bool merge_stages(RandomSwarm& swarm, std::size_t first) {
  RunPlan& plan = swarm.plan;
  if (first + 1 >= plan.stage_tensors.size()) return false;
  if (swarm.deck) {
    if (swarm.deck->swarm.cuts_matter()) return false;  // it would be another training
    swarm.deck->swarm.stages = plan.stages() - 1;
    set_stages(plan, *swarm.deck);
  } else {
    const auto next = static_cast<std::ptrdiff_t>(first) + 1;
    const auto& tensors = plan.stage_tensors[first + 1];
    plan.stage_tensors[first].insert(plan.stage_tensors[first].end(), tensors.begin(),
                                     tensors.end());
    plan.stage_tensors.erase(plan.stage_tensors.begin() + next);
    plan.stage_costs[first] += plan.stage_costs[first + 1];
    plan.stage_costs.erase(plan.stage_costs.begin() + next);
  }
  if (plan.needs.known()) {
    auto& needs = plan.needs.stages;
    needs[first].serving_bytes += needs[first + 1].serving_bytes;
    needs[first].learning_bytes += needs[first + 1].learning_bytes;
    needs.erase(needs.begin() + static_cast<std::ptrdiff_t>(first) + 1);
  }
  plan.swarm.stages = plan.stages();
  plan.swarm.pins.clear();
  const StageId last(static_cast<std::int32_t>(plan.stages()) - 1);
  for (Fault& kill : swarm.faults.all) kill.stage = std::min(kill.stage, last);
  for (Move& move : plan.torture_only.moves) move.to = std::min(move.to, last);
  keep_room(swarm);
  return true;
}

bool remove_peer(RandomSwarm& swarm, std::vector<PeerId>& from) {
  const bool worker = &from == &swarm.membership.workers;
  if (from.size() <= (worker ? 1u : 0u)) return false;
  // Ids need not be dense: the others keep theirs.
  const PeerId peer = from.back();
  from.pop_back();
  swarm.plan.swarm.spares = static_cast<std::int64_t>(swarm.membership.spares.size());
  if (!can_serve_all_stages(swarm)) swarm.plan.swarm.pins.clear();
  keep_room(swarm);
  if (swarm.stop) {
    std::erase(swarm.stop->peers, peer);
    if (swarm.stop->peers.empty()) swarm.stop.reset();
  }
  return true;
}

// Instead of the first part of a run that stops, the swarm that would resume it, from step 0.
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

void add_simpler_faults(std::vector<Simplification>& simplifications, std::size_t kills) {
  for (std::size_t k = 0; k < kills; ++k) {
    simplifications.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      if (k >= all.size()) return false;
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(k));
      return true;
    });
    simplifications.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      return k < all.size() && set(all[k].more, std::int64_t{0});
    });
    simplifications.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      return k < all.size() && lower_count(all[k], all[k].count / 2);
    });
    simplifications.emplace_back([k](RandomSwarm& swarm) {
      auto& all = swarm.faults.all;
      return k < all.size() && lower_count(all[k], all[k].count * 7 / 8);
    });
  }
}

void add_smaller_sizes(std::vector<Simplification>& simplifications) {
  simplifications.emplace_back([](auto& s) { return set_steps(s, 1); });
  simplifications.emplace_back([](auto& s) { return set_steps(s, s.plan.train.steps / 2); });
  simplifications.emplace_back([](auto& s) { return set_steps(s, s.plan.train.steps - 1); });
  simplifications.emplace_back([](auto& s) { return set_microbatches(s, 1); });
  simplifications.emplace_back(
      [](auto& s) { return set_microbatches(s, s.plan.train.microbatches / 2); });
  simplifications.emplace_back(
      [](auto& s) { return set_microbatches(s, s.plan.train.microbatches - 1); });
  simplifications.emplace_back([](auto& s) { return remove_peer(s, s.membership.spares); });
  simplifications.emplace_back([](auto& s) { return remove_peer(s, s.membership.workers); });
  for (std::size_t first = 0; first < 4; ++first) {
    simplifications.emplace_back([first](auto& s) { return merge_stages(s, first); });
  }
}

void add_fewer_features(std::vector<Simplification>& simplifications) {
  simplifications.emplace_back([](auto& s) {
    if (!s.stop) return false;
    s.stop.reset();
    return true;
  });
  simplifications.emplace_back([](auto& s) {
    if (!s.damaged_chunk && !s.damaged_piece && !s.damaged_sum) return false;
    s.damaged_chunk.reset();
    s.damaged_piece.reset();
    s.damaged_sum.reset();
    return true;
  });
  simplifications.emplace_back([](auto& s) {
    if (!s.refused_stage) return false;
    s.refused_stage.reset();
    return true;
  });
  simplifications.emplace_back([](auto& s) {
    if (!s.plan.needs.known()) return false;
    s.plan.needs = {};
    return true;
  });
  simplifications.emplace_back([](auto& s) {
    if (s.plan.swarm.pins.empty()) return false;
    s.plan.swarm.pins.clear();
    return true;
  });
  simplifications.emplace_back(
      [](auto& s) { return set(s.plan.swarm.collectives, Collectives::none); });
  simplifications.emplace_back([](auto& s) { return set(s.collectives.trouble, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.plan.validate_every, std::int64_t{0}); });
  simplifications.emplace_back(
      [](auto& s) { return set(s.plan.checkpoint_every, std::int64_t{0}); });
  simplifications.emplace_back([](auto& s) { return set(s.model.flag_chance, 0.0); });
  simplifications.emplace_back([](auto& s) {
    if (s.deck) s.deck->train.updates = Updates::synchronous;
    return set(s.plan.train.updates, Updates::synchronous);
  });
  simplifications.emplace_back(
      [](auto& s) { return set(s.plan.swarm.wiring, Wiring::round_robin); });
  simplifications.emplace_back(
      [](auto& s) { return set(s.plan.swarm.rebalance, Rebalance::none); });
  simplifications.emplace_back(
      [](auto& s) { return set(s.plan.swarm.newcomers, NewcomerPolicy::even); });
  simplifications.emplace_back([](auto& s) {
    const std::optional<std::int64_t> most = std::int64_t{1} << 17;
    return set(s.plan.torture_only.reduction_chunk_elements, most);
  });
  simplifications.emplace_back(
      [](auto& s) { return set(s.plan.torture_only.piece_elements, std::int64_t{1} << 17); });
  simplifications.emplace_back([](auto& s) {
    if (s.deck) s.deck->train.optimizer = Optimizer::adamw;
    return set(s.plan.train.optimizer, Optimizer::adamw);
  });
  simplifications.emplace_back([](auto& s) {  // pipelines may need all microbatches at once
    return !s.plan.swarm.has_pipelines() && set(s.plan.window, std::int64_t{1});
  });
  simplifications.emplace_back([](auto& s) { return set(s.plan.between_deaths_s, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.plan.swarm.method, Method::swarm); });
  simplifications.emplace_back([](auto& s) { return set(s.clock_offset_most_s, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.start_most_s, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.disks.most_s, 0.0); });
  simplifications.emplace_back([](auto& s) {
    s.disks.failing_peer.reset();
    return set(s.disks.writes_until_full, std::optional<std::int64_t>());
  });
  simplifications.emplace_back([](auto& s) {
    if (s.plan.torture_only.moves.empty()) return false;
    s.plan.torture_only.moves.pop_back();
    return true;
  });
  simplifications.emplace_back([](auto& s) {
    if (s.joins.empty()) return false;
    s.joins.pop_back();
    return true;
  });
  simplifications.emplace_back([](auto& s) { return set(s.plan.swarm.shadows, std::int64_t{0}); });
  simplifications.emplace_back([](auto& s) { return set(s.links.jitter, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.links.duplicate_chance, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.links.spike_chance, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.links.delays_to_self, false); });
  simplifications.emplace_back([](auto& s) { return set(s.links.queue, Queue::none); });
  simplifications.emplace_back([](auto& s) { return set(s.links.piece_s, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.costs.noise, 0.0); });
  simplifications.emplace_back([](auto& s) { return set(s.costs.speed_ratio, 1.0); });
}

}  // namespace

RandomSwarm shrink(const RandomSwarm& swarm, const std::function<bool(const RandomSwarm&)>& fails,
                   std::int64_t most_trials) {
  std::vector<Simplification> simplifications{skip_to_next_part};
  add_simpler_faults(simplifications, 6);
  add_smaller_sizes(simplifications);
  add_fewer_features(simplifications);
  RandomSwarm smallest = swarm;
  std::int64_t trials = 0;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Simplification& simplification : simplifications) {
      for (RandomSwarm next = smallest; trials < most_trials && simplification(next);
           next = smallest) {
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
