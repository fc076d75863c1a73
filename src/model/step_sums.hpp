#pragma once
// The integer sums of one step over all tensors of a stage. A tensor that nothing was added to yet
// holds anything: its first contribution is written over it, which saves clearing the sums. But
// where a collective may read them, beside the jobs, they are cleared: then nothing is left to do
// for it when they are complete.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cover.hpp"
#include "kernels/backend.hpp"
#include "model/stage_tensors.hpp"

namespace swarmpi {

class StepSums {
 public:
  /// `for_collectives`: data() of complete sums does nothing, so that any thread may call it.
  StepSums(const StageTensors& tensors, kernels::Backend& backend, bool for_collectives = false);

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
  /// Where they lie, to be kept while something outside reads there.
  std::shared_ptr<const kernels::Memory> memory() const { return memory_; }
  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(memory_->size_bytes()); }

 private:
  std::int64_t* of(std::size_t place) {
    return memory_->as<std::int64_t>() + tensors_.offset(place);
  }

  const StageTensors& tensors_;
  kernels::Backend& backend_;
  bool for_collectives_;
  std::shared_ptr<kernels::Memory> memory_;
  std::vector<bool> is_empty_;  // by place
  Cover cover_;
  bool frozen_ = false;
};

}  // namespace swarmpi
