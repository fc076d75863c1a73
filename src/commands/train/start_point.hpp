#pragma once
// Where a run starts: at step 0, or at a checkpoint that fits its deck.

#include <optional>

#include "commands/train/output_paths.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {

struct StartPoint {
  std::optional<Checkpoint> checkpoint;
  ResumeState state;               ///< step -1: a new run
  std::optional<History> carried;  ///< the checkpoint's rows, where the journal does not have them
  bool must_agree = true;          ///< steps that the journal has must come out the same again
  bool replaces = false;           ///< an unfinished run without a checkpoint is to be removed
  std::int64_t first_term = 1;
};

/// Finds and checks the start point; writes nothing. REQUIRES: `options.config` has the data's
/// hash. Errors: bad_input, where the checkpoint does not fit deck, fingerprint or outputs.
Result<StartPoint> find_start(const TrainOptions& options, const OutputPaths& paths,
                              const std::string& fingerprint);

}  // namespace swarmpi
