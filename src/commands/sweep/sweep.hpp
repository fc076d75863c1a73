#pragma once
// `swarmpi sweep`: trains a deck with every combination of some values, one after the other, each
// in a folder of its own; or prints a job script that does.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct SweepOptions {
  std::string deck;
  std::vector<std::string> overrides = {};
  std::vector<std::string> vary = {};      ///< `train.lr=1e-3,3e-3`
  std::string out = {};                    ///< folder; "": named after the deck
  std::optional<std::int64_t> ranks = {};  ///< of each run, under mpirun; none: one process
  std::string launcher = {};  ///< words, as a shell splits them, that start each run; "": none
  bool print_slurm = false;
  bool quiet = false;
};

/// Runs what is not complete yet, and ends with a table of all. Each combination's deck is checked
/// before the first one starts. good: all are complete; no: some have failed; stopped: the same
/// command goes on; bad_input. Messages go to `error`.
ExitStatus run_sweep(const SweepOptions& options, std::ostream& out, std::ostream& error);

}  // namespace swarmpi
