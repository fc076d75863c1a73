#pragma once
// `swarmpi torture`: runs thousands of random swarms whose peers die, in virtual time. Each must
// finish, with the same rows, bit for bit, as a run of one peer.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "torture/swarm_check.hpp"

namespace swarmpi {

struct TortureOptions {
  std::int64_t schedules = 1000;
  std::optional<std::uint64_t> seed;    ///< of all schedules; none: a fresh one
  std::optional<std::uint64_t> replay;  ///< one schedule, by its own seed
  bool moments = false;                 ///< count what a peer was doing when a fault took effect
  bool trace = false;                   ///< print the events of the schedule that is replayed
  bool real = false;                    ///< real kernels; else synthetic sums
  bool json = false;                    ///< a last line with all that was counted
  bool hash = false;  ///< print a hash of all events and actions of each schedule, and one of all
  std::vector<std::string> with, without;  ///< features that all schedules have, or none has
};

/// The rules that --with and --without make. Errors: bad_input, where a feature is given to both.
Result<TortureRules> torture_rules(const TortureOptions& options);

/// Prints version, options and seed, then failures and a summary. A schedule that fails is shrunk
/// to the smallest that still fails, whose trace is written to a file in the working directory.
/// Status no: some failed. REQUIRES: torture_rules(options).ok().
ExitStatus run_torture(const TortureOptions& options, std::ostream& out);

}  // namespace swarmpi
