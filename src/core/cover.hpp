#pragma once
// Which microbatches of a step a sum of gradients is over. The job that changes a sum changes its
// cover: a sum to which a microbatch was added twice, or not at all, shows it.

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "core/field_list.hpp"
#include "core/ids.hpp"
#include "core/payload.hpp"

namespace swarmpi {

/// How many microbatches, and the sum of their keys mod 2^64. Covers add up as the sums do.
struct Cover {
  std::int64_t microbatches = 0;
  std::uint64_t keys = 0;

  /// The training microbatches 0 .. `microbatches` - 1 of a step, each once.
  static Cover of_step(Step step, std::int64_t microbatches);

  void add(const MicrobatchId& microbatch);
  Cover& operator+=(const Cover& other);
  bool operator==(const Cover&) const = default;
};
SWARMPI_FIELDS(Cover, microbatches, keys);

/// Packed sums over the microbatches of the cover.
struct PartialSums {
  PayloadRef sums;
  Cover cover;
};
SWARMPI_FIELDS(PartialSums, sums, cover);

/// Of own sums with the addends of others.
Cover with_addends(Cover own, std::span<const PartialSums> addends);

/// The covers of one peer, where it keeps books of its sums and no sums.
class CoverBook {
 public:
  /// A backward pass has added.
  void add(const WorkId& work) { covers_[{work.stage, work.microbatch.step}].add(work.microbatch); }
  /// Of its own sums of the step and the addends.
  Cover with(StageId stage, Step step, std::span<const PartialSums> addends) const;
  /// The step's sums are dropped.
  void drop(StageId stage, Step step) { covers_.erase({stage, step}); }

 private:
  std::map<std::pair<StageId, Step>, Cover> covers_;
};

}  // namespace swarmpi
