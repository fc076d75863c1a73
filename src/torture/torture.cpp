#include "torture/torture.hpp"

namespace swarmpi {
namespace {

// Large enough for every stage to have replicas, small enough to be many.
SwarmSizes draw_sizes(std::uint64_t seed) {
  RandomStream draws(seed, Stream::simulation, 15);
  SwarmSizes sizes;
  sizes.most_steps = 5;
  sizes.most_microbatches = 10;
  sizes.most_stages = 4;
  sizes.least_workers = 4;
  sizes.most_workers = 8;
  if (draws.chance(0.1)) {
    sizes.least_workers = 1;
    sizes.most_workers = 12;
  }
  return sizes;
}

}  // namespace

RandomSwarm draw_tortured_swarm(std::uint64_t seed, const TortureRules& rules) {
  const SwarmSizes sizes = draw_sizes(seed);
  RandomSwarm swarm = rules.real ? draw_real_swarm(seed, sizes) : draw_swarm(seed, sizes);
  if (rules.delayed) {
    swarm.plan.train.updates = *rules.delayed ? "delayed" : "synchronous";
    if (swarm.deck) swarm.deck->train.updates = swarm.plan.train.updates;
  }
  add_faults(swarm, rules.faults);
  return swarm;
}

SwarmVerdict check_torture(std::uint64_t seed, const TortureRules& rules, Observer* trace) {
  return check_swarm(draw_tortured_swarm(seed, rules), trace);
}

}  // namespace swarmpi
