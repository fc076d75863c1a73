#pragma once
// The integer sums of one step over all tensors of a stage. A tensor that nothing was added to yet
// holds anything: its first contribution is written over it, which saves clearing the sums.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cover.hpp"
#include "kernels/backend.hpp"
#include "model/stage_tensors.hpp"

namespace swarmpi {

class StepSums {
 public:
  StepSums(const StageTensors& tensors, kernels::Backend& backend);

  /// Nothing was added to any tensor.
  void clear();
  /// They stand for the reduced gradient from now on: target() ends the process, until clear().
  void freeze() { frozen_ = true; }
  /// A microbatch is in the sums now.
  void added(const MicrobatchId& microbatch) { cover_.add(microbatch); }
  /// Which microbatches are.
  const Cover& cover() const { return cover_; }
  /// A tensor's sums, and how its next contribution is to be written: at once.
  struct Target {
    std::int64_t* sums;
    kernels::Write write;
  };
  Target target(std::size_t place);
  /// All tensors by offset.
  const std::int64_t* data();
  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(memory_->size_bytes()); }

 private:
  std::int64_t* of(std::size_t place) {
    return memory_->as<std::int64_t>() + tensors_.offset(place);
  }

  const StageTensors& tensors_;
  kernels::Backend& backend_;
  std::unique_ptr<kernels::Memory> memory_;
  std::vector<bool> is_empty_;  // by place
  Cover cover_;
  bool frozen_ = false;
};

}  // namespace swarmpi
