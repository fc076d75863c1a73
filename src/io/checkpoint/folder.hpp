#pragma once
// The checkpoints in a folder.

#include <cstdint>
#include <string>
#include <vector>

namespace swarmpi {

struct CheckpointEntry {
  std::int64_t step = 0;
  std::string path;
  bool complete = false;  ///< has a manifest
};

/// The step-N folders in `folder`, by ascending step. Links and everything else are passed over.
std::vector<CheckpointEntry> list_checkpoints(const std::string& folder);

/// Where a run's checkpoints are unless its deck says otherwise: RUN.checkpoints beside RUN.h5.
std::string checkpoints_beside(const std::string& run_file);

/// Whether a name is just "step-N".
bool is_step_name(const std::string& name, std::int64_t* step = nullptr);

}  // namespace swarmpi
