#pragma once
// The runs of a sweep before anything is started: their decks, where they write, and how far an
// earlier sweep has brought them.

#include <cstdint>
#include <string>
#include <vector>

#include "commands/sweep/sweep.hpp"
#include "core/status.hpp"

namespace swarmpi {

/// How far a run is.
enum class Standing : std::uint8_t { fresh, unfinished, complete, failed };

struct PlannedRun {
  std::string name;  ///< `lr=1e-3,seed=2`
  std::string folder;
  std::vector<std::string> settings;  ///< all of --set
  std::string run_file() const { return folder + "/RUN.h5"; }
  std::string checkpoints() const { return folder + "/checkpoints"; }
};

/// The folder of the sweep.
std::string sweep_folder(const SweepOptions& options);

/// Errors: bad_input, where a deck is refused, two runs would be the same, or a folder holds the
/// run of another deck, or one on other data.
Result<std::vector<PlannedRun>> plan_runs(const SweepOptions& options);

/// Whether the data of all runs can be read. Errors: bad_input.
Status check_data(const SweepOptions& options, const std::vector<PlannedRun>& runs);

Standing standing_of(const SweepOptions& options, const PlannedRun& run);

}  // namespace swarmpi
