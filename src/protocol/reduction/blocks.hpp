#pragma once
// A stage's tensors cut into blocks of 4096 elements: norms are summed over blocks, and chunks are
// made of them. All replicas of a stage number the blocks alike.

#include <cstdint>
#include <span>
#include <vector>

#include "core/field_list.hpp"
#include "core/shared_doubles.hpp"

namespace swarmpi {

struct Block {
  std::int32_t tensor = 0;  ///< index within the stage
  std::int64_t first = 0;   ///< element within the tensor
  std::int64_t count = 0;   ///< 4096, or less at a tensor's end
};

/// Blocks [first, end) of a stage.
struct BlockRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  bool operator==(const BlockRange&) const = default;
};
SWARMPI_FIELDS(BlockRange, first, end);

/// The blocks of tensors of these sizes, tensor after tensor.
std::vector<Block> cut_into_blocks(std::span<const std::int64_t> tensor_elements);

/// Elements of these blocks.
std::int64_t elements_of(std::span<const Block> blocks, const BlockRange& range);

/// Sums values, one a block, over each tensor's blocks in index order: a tensor's sum of squares
/// has the same bits whichever replica measured which block. `of_blocks`: the values in parts, in
/// the order of blocks. REQUIRES: one value a block.
std::vector<double> sum_by_tensor(std::span<const Block> blocks,
                                  const std::vector<SharedDoubles>& of_blocks, std::size_t tensors);

}  // namespace swarmpi
