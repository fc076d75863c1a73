#pragma once
// Compares the run of a swarm with that of one peer that serves the whole model as one stage: they
// must be equal bit for bit, whatever happens to the swarm.

#include <cstdint>
#include <string>
#include <vector>

#include "torture/random_swarm.hpp"

namespace swarmpi {

/// Workers from which on a swarm counts as a crowd.
inline constexpr std::size_t kCrowd = 20;

struct SwarmVerdict {
  std::string violation;                 ///< what differed, or the rule that was broken; "" if none
  ExitStatus status = ExitStatus::good;  ///< how the first part ended
  std::int64_t parts = 1;                ///< the run was stopped and resumed parts - 1 times
  std::int64_t events = 0;               ///< of all parts, without the reference
  std::int64_t jobs = 0;
  std::int64_t recomputed = 0;
  std::int64_t repairs = 0;
  bool keeps_its_cuts = false;        ///< boundaries are coded or learned
  std::vector<DeathCost> deaths;      ///< of all parts
  std::string injected;               ///< faults that happened in the last part
  FaultCounts faults{};               ///< of all parts
  MomentCounts moments{};             ///< likewise
  DiskMishaps mishaps;                ///< likewise
  bool delayed = false;               ///< updates
  bool shadowed = false;              ///< in some part there were shadows
  bool damaged = false;               ///< a bit of a reduced chunk flipped
  bool piped = false;                 ///< in some part the work went through static pipelines
  bool bounded = false;               ///< in some part memory was bounded
  bool queued = false;                ///< messages wait for one another on their lines
  bool large = false;                 ///< a piece of state takes long
  bool crowded = false;               ///< there are kCrowd workers or more
  std::int64_t short_ends = 0;        ///< parts that ended for too little memory
  std::int64_t refusals = 0;          ///< stages for which a peer had no memory left
  std::int64_t joined = 0;            ///< newcomers that became members, in all parts
  CollectiveCounts collectives;       ///< what came of them, in all parts
  MoveCounts moves{};                 ///< how moves ended, in all parts
  std::int64_t came_back = 0;         ///< times that a peer whose disk had hung could lead again
  std::int64_t given_up_loading = 0;  ///< peers that could not load their stages
  std::int64_t microbatches = 0;      ///< of a step
};

/// Runs the swarm to its end, resumes it with another swarm after each stop or lost stage, and
/// compares it with one undisturbed peer.
SwarmVerdict check_swarm(const RandomSwarm& swarm, Observer* observer = nullptr);

/// Checks the tortured swarm of this seed.
SwarmVerdict check_torture(std::uint64_t seed, const TortureRules& rules = {},
                           Observer* observer = nullptr);

}  // namespace swarmpi
