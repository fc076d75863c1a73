#pragma once
// One stage's part of a checkpoint: /tensors/<name>/{weights_0, ..., moment1, moment2}, and /names.
// Replicas that each own some elements write a part each. What it has of a tensor are pieces then,
// datasets of one dimension, and /first_elements and /element_counts say of each name which.

#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.hpp"

namespace swarmpi {

/// A tensor in a stage's file.
struct StoredTensor {
  std::string name;
  std::optional<ElementRange> piece = {};  ///< what is there of it; nothing: all
};
/// The tensors of a stage's file. Errors: bad_input.
Result<std::vector<StoredTensor>> stage_file_tensors(const std::string& path);
/// Reads what the file has of one tensor, `piece`, as Checkpoint::read does.
Status read_stage_tensor(const std::string& path, const TensorState& tensor,
                         const ElementRange& piece, kernels::Backend& backend);

}  // namespace swarmpi
