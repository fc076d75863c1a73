#pragma once
// Swarms drawn from a seed: everything that must not change the bits is drawn, and the run is
// compared with that of one peer which serves the whole model as one stage.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "simulator/random_models.hpp"
#include "simulator/swarm_run.hpp"
#include "simulator/workshop.hpp"

namespace swarmpi {

struct RandomSwarm {
  std::uint64_t seed = 0;
  RunPlan plan;
  Roster roster;
  MadeUpModel model;           ///< where there is no deck
  std::optional<Config> deck;  ///< real kernels
  RandomLinksPlan links;
  RandomCostsPlan costs;
  double disk_most_s = 0;
  double start_most_s = 0;
  double clock_offset_most_s = 0;
  std::optional<StopRequest> stop;

  /// What was drawn, in one line.
  std::string text() const;
};

RandomSwarm draw_swarm(std::uint64_t seed);
/// The same with real kernels on a tiny model.
RandomSwarm draw_real_swarm(std::uint64_t seed);
/// The same learning by other peers, in other stages, over other links.
RandomSwarm draw_other_swarm(const RandomSwarm& swarm, std::uint64_t seed);
/// The same learning by one peer in one stage.
RandomSwarm alone(const RandomSwarm& swarm);

/// What computes in it.
std::unique_ptr<Workshop> make_workshop(const RandomSwarm& swarm);

/// Runs the swarm from `resume` on; what it writes goes to `disk`.
SwarmEnd run(const RandomSwarm& swarm, const ResumeState& resume, Workshop& workshop,
             VirtualDisk& disk, Observer* trace = nullptr);

struct SwarmVerdict {
  std::string fault;                     ///< what differed, or was against the rules; "" if nothing
  ExitStatus status = ExitStatus::good;  ///< how the first part ended
  std::int64_t parts = 1;                ///< stops and resumes, and the end
  std::int64_t events = 0;               ///< of all parts, without the peer it is compared with
  std::int64_t jobs = 0;
};

/// Runs the swarm to its end, by other swarms after each stop, and compares it.
SwarmVerdict check_swarm(const RandomSwarm& swarm, Observer* trace = nullptr);

}  // namespace swarmpi
