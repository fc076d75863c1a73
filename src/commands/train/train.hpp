#pragma once
// `swarmpi train`: builds the four seams, lets this process's peer run on them, and says what came
// of it.

#include <optional>
#include <string>

#include "config/config.hpp"
#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

struct TrainOptions {
  Config config;
  std::string out;                    ///< --out, else output.run
  std::optional<std::string> resume;  ///< --resume CHECKPOINT
  bool dry_run = false;               ///< check everything, write nothing, train nothing
  bool quiet = false;
  Launcher launcher;  ///< who started this rank, and how many
};

/// Prints errors to stderr itself.
ExitStatus run_training(const TrainOptions& options);

}  // namespace swarmpi
