#pragma once
// Swarms drawn from a seed: everything that must not change the bits is drawn.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "simulation/compute_factory.hpp"
#include "simulation/random_models.hpp"
#include "torture/swarm_run.hpp"

namespace swarmpi {

/// What may be drawn.
struct SwarmSizes {
  std::int64_t most_steps = 6;
  std::int64_t most_microbatches = 12;
  std::int64_t most_stages = 5;
  std::int64_t least_workers = 1;
  std::int64_t most_workers = 9;
};

/// What faults there are; empty: drawn.
struct FaultOptions {
  std::optional<bool> joins;    ///< newcomers
  std::optional<bool> shadows;  ///< spares that learn for good
  std::optional<bool> cuts;     ///< links that are cut, and peers that are stopped for a while

  /// Bits may flip: instead of all that, for whoever could tell must be there.
  bool flips() const {
    return !joins.value_or(false) && !shadows.value_or(false) && !cuts.value_or(false);
  }
};

struct RandomSwarm {
  std::uint64_t seed = 0;
  SwarmSizes sizes;
  RunPlan plan;
  InitialMembership membership;
  SyntheticModel model;        ///< where there is no deck
  std::optional<Config> deck;  ///< real kernels
  RandomLinksPlan links;
  RandomCostsPlan costs;
  RandomDisksPlan disks;
  double start_most_s = 0;
  double clock_offset_most_s = 0;
  std::optional<StopRequest> stop;
  FaultSchedule faults;
  std::vector<Joining> joins;
  FaultOptions fault_options;  ///< of those who go on from it, too

  /// What was drawn, in one line.
  std::string text() const;
};

/// Whether its peers can serve its stages, those that are pinned where they are.
bool is_possible(const RandomSwarm& swarm);

/// Without faults.
RandomSwarm draw_swarm(std::uint64_t seed, const SwarmSizes& sizes = {});
/// The same with real kernels on a tiny model.
RandomSwarm draw_real_swarm(std::uint64_t seed, const SwarmSizes& sizes = {});
/// Lets peers die in it, and the others go on.
void add_faults(RandomSwarm& swarm, const FaultOptions& fault_options = {});
/// The same learning by other peers, in other stages, over other links, with other faults where
/// there were some.
RandomSwarm draw_other_swarm(const RandomSwarm& swarm, std::uint64_t seed);
/// The same learning by one peer in one stage.
RandomSwarm alone(const RandomSwarm& swarm);

/// What computes in it.
std::unique_ptr<ComputeFactory> make_compute_factory(const RandomSwarm& swarm);

/// Runs the swarm from `resume` on; what it writes goes to `disk`.
SwarmEnd run(const RandomSwarm& swarm, const ResumeState& resume, ComputeFactory& compute_factory,
             VirtualDisk& disk, Observer* trace = nullptr);

}  // namespace swarmpi
