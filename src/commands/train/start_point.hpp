#pragma once
// What a run goes on from: nothing, or a checkpoint that fits its deck.

#include <optional>

#include "commands/train/output_paths.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/journal/journal.hpp"

namespace swarmpi {

struct StartPoint {
  std::optional<Checkpoint> checkpoint;
  ResumeState state;               ///< step -1: a new run
  std::optional<History> carried;  ///< rows that the journal at hand does not have yet
  bool must_agree = true;          ///< steps that were made before must come out the same
  bool replaces = false;           ///< an unfinished run without a checkpoint is removed first
  std::int64_t first_term = 1;
};

/// Finds and checks it; writes nothing. `config` is complete, with the data's hash. Errors:
/// bad_input, when outputs exist without --resume, or the checkpoint does not fit deck, fingerprint
/// or outputs.
Result<StartPoint> find_start(const TrainOptions& options, const OutputPaths& paths,
                              const std::string& fingerprint);

}  // namespace swarmpi
