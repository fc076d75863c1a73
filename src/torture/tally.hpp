#pragma once
// Sums over many tortured swarms.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "torture/swarm_check.hpp"

namespace swarmpi {

/// Plain numbers only: processes share it.
struct TortureTally {
  std::uint64_t running = 0;  ///< seed of the schedule that is being run
  std::int64_t schedules = 0;
  std::int64_t events = 0;
  std::int64_t kills = 0;
  std::int64_t kills_of_leaders = 0;
  FaultCounts faults{};                                            ///< that happened
  MomentCounts moments{};                                          ///< at which they happened
  DiskMishaps mishaps;                                             ///< likewise
  std::int64_t delayed = 0, joined = 0, shadowed = 0, silent = 0;  ///< schedules with these
  std::int64_t damaged = 0;                                        ///< with a damaged chunk
  std::int64_t bounded = 0;                                        ///< where memory was bounded
  std::int64_t short_ends = 0;                                     ///< ends for too little memory
  std::int64_t refusals = 0;          ///< stages for which a peer had no memory left
  std::int64_t queued = 0;            ///< where messages wait for one another
  std::int64_t large = 0;             ///< where a piece of state takes long
  std::int64_t crowded = 0;           ///< with kCrowd workers or more
  std::int64_t piped = 0;             ///< with static pipelines
  std::int64_t many_words = 0;        ///< with more microbatches than a word of a bitmap has bits
  std::int64_t came_back = 0;         ///< times that a peer whose disk had hung could lead again
  std::int64_t given_up_loading = 0;  ///< peers that could not load their stages
  // Schedules whose boundaries are coded or learned; of these, those with repairs, with
  // recomputation, and with both.
  std::int64_t coded = 0, coded_repaired = 0, coded_recomputed = 0, coded_both = 0;
  CollectiveCounts collectives;  ///< what came of them
  std::int64_t resumed = 0;
  std::int64_t diverged = 0;
  std::int64_t failed = 0;
  MoveCounts moves{};         ///< of Algorithm 2, by how they ended
  std::int64_t own = 0;       ///< backward passes that the dead had done, in open steps
  std::int64_t repeated = 0;  ///< backward passes that were done again
  std::uint64_t hash = 0;     ///< of the schedules' hashes, in the order in which they ran

  /// Deaths by how many more or fewer passes were repeated than the dead peer had done; index
  /// kSame: as many.
  static constexpr std::size_t kSame = 4;
  std::array<std::int64_t, 9> beyond_own{};

  void add(const SwarmVerdict& verdict);
  /// For people. `seconds`: wall time.
  std::string summary(double seconds) const;
  /// How many faults happened at each kind of moment.
  std::string moments_text() const;
  /// All counts but those of moments, by names for records: sums over tallies are their sums.
  std::vector<std::pair<std::string, std::int64_t>> counts() const;
};

}  // namespace swarmpi
