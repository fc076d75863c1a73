#pragma once
// `swarmpi torture`: thousands of random swarms whose peers die, in virtual time. Each must come to
// its end, with the very rows of one peer alone.

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
  bool moments = false;                 ///< say when something went wrong
  bool trace = false;                   ///< of the one that is replayed
  bool real = false;
  bool hash = false;  ///< print one of all events and actions of each schedule, and one of all
  std::vector<std::string> with, without;  ///< features that all schedules have, or none
};

/// What the features come to. Errors: bad_input, where one is asked for and excluded.
Result<TortureRules> torture_rules(const TortureOptions& options);

/// Prints version, options and seed, then what failed and a summary. A schedule that fails is made
/// smaller, and traced into a file in the working directory. Status no: some failed. REQUIRES:
/// torture_rules() is content.
ExitStatus run_torture(const TortureOptions& options, std::ostream& out);

}  // namespace swarmpi
