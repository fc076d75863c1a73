#pragma once
// The model of a checkpoint, for commands that compute with it in one process.

#include <memory>
#include <ostream>
#include <string>

#include "config/config.hpp"
#include "core/status.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "kernels/backend.hpp"
#include "model/inference.hpp"

namespace swarmpi {

/// A checkpoint and the deck that it was trained with.
struct TrainedRun {
  Checkpoint checkpoint;
  Config config;
  /// It was trained on a GPU, and there is none here: its kernels are native ones instead.
  bool lacks_gpu = false;
};

/// The checkpoint that a person means: a step-N folder, a folder of them, a run file, or a folder
/// with a run's folder of checkpoints. Errors: bad_input, also where that may be several.
Result<std::string> named_checkpoint(const std::string& path);

/// Opens it, and warns of newer ones that are damaged. `use`: "the sample is of". Errors:
/// bad_input.
Result<TrainedRun> open_trained(const std::string& path, const std::string& use,
                                std::ostream& error);

/// The model with its weights, ready for this thread.
struct TrainedModel {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<Inference> inference;
};
/// Errors: bad_input.
Result<TrainedModel> load_model(const TrainedRun& run);

}  // namespace swarmpi
