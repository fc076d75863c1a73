#pragma once
// The checkpoints in a folder.

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace swarmpi {

struct CheckpointEntry {
  std::int64_t step = 0;
  std::string path;
  bool complete = false;  ///< has a manifest
  bool link = false;      ///< to a folder elsewhere: read, never written or removed
};

/// The step-N folders in `folder`, and links of such names, by ascending step. Everything else is
/// passed over.
std::vector<CheckpointEntry> list_checkpoints(const std::string& folder);
/// An error, bad_input, for a link without a complete checkpoint behind it: its disk may be
/// missing, and a new checkpoint would be written through it.
Status refuse_broken_link(const CheckpointEntry& entry);

/// Where a run's checkpoints are unless its deck says otherwise: RUN.checkpoints beside RUN.h5.
std::string checkpoints_beside(const std::string& run_file);

/// Whether a name is just "step-N".
bool is_step_name(const std::string& name, std::int64_t* step = nullptr);

}  // namespace swarmpi
