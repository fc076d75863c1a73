#pragma once
// Swarms drawn from a seed: peers, stages, links, costs, disks and faults, none of which may change
// the bits of a run.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "simulation/random_models.hpp"
#include "simulation/synthetic_compute.hpp"
#include "torture/swarm_run.hpp"

namespace swarmpi {

/// Bounds of what is drawn.
struct SwarmSizes {
  std::int64_t most_steps = 6;
  std::int64_t most_microbatches = 12;
  std::int64_t most_stages = 5;
  std::int64_t least_workers = 1;
  std::int64_t most_workers = 9;
};

/// Which kinds of faults a swarm has; where nothing is said, that is drawn.
struct FaultOptions {
  std::optional<bool> joins;    ///< newcomers
  std::optional<bool> shadows;  ///< spares that learn for good
  std::optional<bool> cuts;     ///< links that are cut, and peers that are stopped for a while
  /// Static ones, of the methods that are not SWARM. Drawn only where none is said, for schedules
  /// that are known by their seeds alone must stay what they are.
  std::optional<bool> pipelines = false;
  /// Each replica owns a range of its stage, in most schedules: a method of pipelines.
  std::optional<bool> owners = false;
  /// Stages are reduced by collectives, which fail in many ways, in most schedules.
  std::optional<bool> collectives = false;
  /// Terms appear that no peer has created, in all schedules but those whose bits flip.
  std::optional<bool> outbids = false;

  /// Whether bits may flip. They flip only in swarms without all of these: the replica that would
  /// show the difference must not be lost.
  bool flips() const {
    return !joins.value_or(false) && !shadows.value_or(false) && !cuts.value_or(false);
  }
};

/// What tortured swarms have in common.
struct TortureRules {
  std::optional<bool> delayed = {};  ///< updates; none: drawn
  FaultOptions faults = {};
  bool real = false;  ///< real kernels on tiny models
};

struct RandomSwarm {
  std::uint64_t seed = 0;
  SwarmSizes sizes;
  RunPlan plan;
  InitialMembership membership;
  SyntheticModel model;        ///< what is trained if there is no deck
  std::optional<Config> deck;  ///< set: real kernels train its model
  RandomLinksPlan links;
  RandomCostsPlan costs;
  RandomDisksPlan disks;
  RandomCollectivesPlan collectives;  ///< if the plan has some
  double start_most_s = 0;
  double clock_offset_most_s = 0;
  std::optional<StopRequest> stop;
  FaultSchedule faults;
  std::vector<Newcomer> joins;
  FaultOptions fault_options;  ///< also of the swarms that resume it
  /// The number of a reduced chunk of which a bit flips when a peer takes it over from another.
  std::optional<std::int64_t> damaged_chunk;
  /// Likewise of a piece of state.
  std::optional<std::int64_t> damaged_piece;

  /// Likewise of what is rounded from a collective's sums.
  std::optional<std::int64_t> damaged_sum;

  /// The number of a stage that is to be learned or loaded and for which there is no memory left.
  std::optional<std::int64_t> refused_stage;

  /// What was drawn, in one line.
  std::string text() const;
};

/// Gives all peers room for all stages: where they have none, some give up one stage for another.
void lift_memory_limits(RandomSwarm& swarm);

/// Whether the swarm has a worker for each stage, with the pins that it has.
bool can_serve_all_stages(const RandomSwarm& swarm);

/// A swarm without faults, on a synthetic model.
RandomSwarm draw_swarm(std::uint64_t seed, const SwarmSizes& sizes = {});
/// The same with real kernels on a tiny model.
RandomSwarm draw_real_swarm(std::uint64_t seed, const SwarmSizes& sizes = {});
/// Draws faults, and lets the swarm repair what they break.
void add_faults(RandomSwarm& swarm, const FaultOptions& fault_options = {});
/// The swarm and its faults that this seed stands for.
RandomSwarm draw_tortured_swarm(std::uint64_t seed, const TortureRules& rules = {});
/// The same learning by other peers, over other links, in other stages where bits do not depend on
/// them, with other faults where there were some.
RandomSwarm draw_other_swarm(const RandomSwarm& swarm, std::uint64_t seed);
/// The same learning by one peer, in one stage where bits do not depend on the stages.
RandomSwarm alone(const RandomSwarm& swarm);

/// Makes the computes of its peers.
std::unique_ptr<ComputeFactory> make_compute_factory(const RandomSwarm& swarm);

/// Runs the swarm from `resume` on; what it writes goes to `disk`.
SwarmEnd run(const RandomSwarm& swarm, const ResumeState& resume, ComputeFactory& compute_factory,
             VirtualDisk& disk, Observer* observer = nullptr);

}  // namespace swarmpi
