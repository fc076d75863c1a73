#pragma once
// One stage's part of a checkpoint: /tensors/<name>/{weights_0, ..., moment1, moment2}, and /names.

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.hpp"

namespace swarmpi {

/// Names of the tensors in a stage's file. Errors: bad_input.
Result<std::vector<std::string>> stage_file_names(const std::string& path);
/// Reads one tensor of it, as Checkpoint::read does.
Status read_stage_tensor(const std::string& path, const TensorState& tensor);

}  // namespace swarmpi
