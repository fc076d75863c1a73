#pragma once
// Where a process starts: at step 0, at a checkpoint that fits its deck, or in a running swarm.

#include <optional>
#include <string>
#include <vector>

#include "commands/train/output_paths.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/journal/journal.hpp"
#include "model/tensors.hpp"

namespace swarmpi {

struct StartPoint {
  std::optional<Checkpoint> checkpoint;
  ResumeState state;            ///< step -1: a new run
  bool carries_rows = false;    ///< the journal does not have the checkpoint's rows
  std::string found_empty;      ///< the folder to resume from, where it has no checkpoint
  bool begins_again = false;    ///< an unfinished run without a checkpoint, at step 0
  std::int64_t first_term = 1;  ///< above all that the journal's folder names
};

/// Whether the deck names the file of the weights whose hash it has, as one must that begins
/// without a checkpoint. Errors: bad_input.
Status check_initial_weights(const ModelConfig& model);

/// Where cuts between stages change bits, a resumed run cuts the model where its checkpoint did,
/// unless the deck itself says where. Errors: bad_input, where the checkpoint cannot be read or was
/// made with another deck.
Status adopt_cuts(const TrainOptions& options, Config& config);

/// Finds and checks the start point; writes nothing. A newcomer's was sent to it. REQUIRES:
/// `config` has the data's hash. Errors: bad_input, where the checkpoint does not fit deck,
/// fingerprint or outputs, or this host computes other bits than the swarm that it is to join.
/// `proof`: what this process proves of a checkpoint.
Result<StartPoint> find_start(const TrainOptions& options, const Config& config,
                              const std::vector<StageSpec>& specs, const OutputPaths& paths,
                              const std::string& fingerprint, const CheckpointProof& proof);

}  // namespace swarmpi
