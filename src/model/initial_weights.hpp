#pragma once
// The weights of a run that begins with those of a file (`model.initial`), such as a GPT-2 that was
// trained elsewhere.

#include <string>

#include "config/config.hpp"
#include "core/status.hpp"
#include "io/weights_file.hpp"
#include "model/tensors.hpp"

namespace swarmpi {

WeightsEntry entry_of(const TensorInfo& tensor);

/// Opens the file, and compares its hash with `model.initial_hash`, where that is given. Errors:
/// bad_input. REQUIRES: the deck names a file.
Result<WeightsFile> open_initial_weights(const ModelConfig& model);

/// Sets `model.initial_hash` to the file's; nothing where the deck names no file, as where a run is
/// resumed that needs it no more. Errors:
/// bad_input, with the key: it cannot be read, has other weights than the hash says, or not the
/// tensors of the deck's model.
Status adopt_initial_weights(ModelConfig& model);

}  // namespace swarmpi
