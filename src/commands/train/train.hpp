#pragma once
// `swarmpi train`: checks everything, agrees with the other ranks, runs this process's peers, and
// reports how the run ended.

#include <optional>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "commands/train/newcomer.hpp"
#include "core/status.hpp"
#include "transport/launcher.hpp"

namespace swarmpi {

/// What a process is asked to train.
struct TrainOptions {
  std::string deck;
  std::vector<std::string> overrides = {};
  std::optional<std::string> out = {};     ///< the run file, else output.run
  std::optional<std::string> resume = {};  ///< CHECKPOINT
  bool dry_run = false;                    ///< check everything; train and write nothing
  bool quiet = false;
  std::optional<RunningSwarm> joins = {};  ///< of a newcomer: what it joins
};

/// What a newcomer is given: where it finds the rank that has spawned it, which sends the options.
struct NewcomerOptions {
  std::string port;
};

/// Runs this process's part of a training run. Errors are printed to `error`; where all ranks fail
/// alike, by one.
ExitStatus train(const std::variant<TrainOptions, NewcomerOptions>& asked, const Launcher& launcher,
                 std::ostream& error);

}  // namespace swarmpi
