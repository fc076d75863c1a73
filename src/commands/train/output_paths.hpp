#pragma once
// Where a run writes, and whether it may: files of an earlier run are never overwritten.

#include <cstdint>
#include <string>
#include <vector>

#include "commands/train/train.hpp"
#include "config/config.hpp"
#include "core/status.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/descriptor.hpp"

namespace swarmpi {

struct OutputPaths {
  std::string run_file;
  std::string journal;      ///< folder
  std::string checkpoints;  ///< folder
};

/// From --out and the deck: RUN.checkpoints beside RUN.h5 where the deck names no folder.
OutputPaths output_paths(const TrainOptions& options, const Config& config);

// The following return bad_input with a message that names the path and what to do.

/// Whether the outputs can be written: those of a new run must not exist yet, the run file must not
/// be one of the files that are read, no running run may write its checkpoints there, and there
/// must be room. A newcomer's are in use already.
Status check_outputs(const OutputPaths& paths, const TrainOptions& options, const Config& config);
/// A resumed run's folder must not hold other checkpoints of the step that it resumes from, or of
/// later ones: they would be taken for its own. But for damaged ones, which are set aside. `from`:
/// null where it resumes from none.
Status refuse_other_checkpoints(const OutputPaths& paths, const Checkpoint* from);
/// Sets aside the damaged ones that are in the run's own folder. Errors: stopped.
Status set_aside_damaged(const OutputPaths& paths, const std::vector<DamagedCheckpoint>& damaged);
/// Writes into the folder of the checkpoints whose they are, and locks that file (not all file
/// systems can) while what is returned lives: of two runs that start at once one is refused.
Result<Descriptor> claim_checkpoints(const OutputPaths& paths);
/// Whether a complete checkpoint is in the run's folder.
bool has_checkpoint(const OutputPaths& paths);

}  // namespace swarmpi
