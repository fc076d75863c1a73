#pragma once
// `swarmpi train`: checks everything, agrees with the other ranks, runs this process's peers, and
// reports how the run ended.

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
  bool dry_run = false;               ///< check everything; train and write nothing
  bool quiet = false;
  Launcher launcher;  ///< what started this rank, and how many ranks
};

/// Runs this process's part of a training run. Prints errors to stderr; where all ranks fail alike,
/// one rank prints.
ExitStatus run_training(const TrainOptions& options);

}  // namespace swarmpi
