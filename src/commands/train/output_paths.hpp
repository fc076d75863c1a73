#pragma once
// Where a run writes, and whether it may: files of an earlier run are never overwritten.

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

/// From --out and the deck: beside the run file where the deck names no folder for checkpoints.
OutputPaths output_paths(const TrainOptions& options);

// The following return bad_input with a message that names the path and what to do.

/// A new run's outputs must not exist yet.
Status refuse_existing(const OutputPaths& paths);
/// A resumed run's folder must not hold checkpoints after `step`: they would be taken for its own.
Status refuse_later_checkpoints(const OutputPaths& paths, std::int64_t step);
/// Files can be made in all folders, and there is room for checkpoints of `needed_bytes`.
Status prove_outputs_writable(const OutputPaths& paths, std::int64_t needed_bytes);
/// The run file must not be one of the files that are read.
Status refuse_data_as_output(const OutputPaths& paths, const std::vector<std::string>& data);
/// Removes run file and journal, and nothing else. REQUIRES: find_start() found there an unfinished
/// run without a checkpoint.
Status remove_unfinished(const OutputPaths& paths);

}  // namespace swarmpi
