#pragma once
// Where a run writes, and whether it may: an earlier run's files are never harmed.

#include <cstdint>
#include <string>
#include <vector>

#include "commands/train/train.hpp"
#include "core/status.hpp"

namespace swarmpi {

struct OutputPaths {
  std::string run_file;
  std::string journal;      ///< folder
  std::string checkpoints;  ///< folder
};

OutputPaths output_paths(const TrainOptions& options);

/// A new run must not find an earlier one in its place.
Status refuse_existing(const OutputPaths& paths);
/// A resumed run's folder must not hold checkpoints after `step`: they would be taken for its own.
Status refuse_later_checkpoints(const OutputPaths& paths, std::int64_t step);
/// Files can be made in all folders, with room for `needed_bytes`.
Status prove_outputs_writable(const OutputPaths& paths, std::int64_t needed_bytes);
/// The run file must not be one of the files that are read.
Status refuse_data_as_output(const OutputPaths& paths, const std::vector<std::string>& data);
/// Removes run file and journal of a run that never reached a checkpoint; touches nothing else.
/// REQUIRES: they were found to be such a run.
Status remove_unfinished(const OutputPaths& paths);

}  // namespace swarmpi
