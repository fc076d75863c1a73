#pragma once
// What the storage knows of stages that have no state (`compute.kernels = "none"`).

#include <cstdint>
#include <vector>

#include "core/ids.hpp"
#include "core/records.hpp"
#include "core/status.hpp"
#include "kernels/backend.hpp"

namespace swarmpi {

/// Stages of a peer that computes nothing: they have no state to be written. Several threads call.
class HollowStages {
 public:
  virtual ~HollowStages() = default;
  /// Of the state after `step`. An error if the stage does not stand there.
  virtual Result<std::vector<std::uint64_t>> tensor_hashes(Step step, StageId stage) = 0;
  virtual Status load(StageId stage, const ResumeState& state) = 0;
  /// For the files of checkpoints, which have no tensors.
  virtual const kernels::Backend& backend() const = 0;
};

}  // namespace swarmpi
