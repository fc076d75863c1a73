#include "protocol/reduction/blocks.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

#include "core/check.hpp"
#include "kernels/block_sum.hpp"

namespace swarmpi {

std::vector<Block> cut_into_blocks(std::span<const std::int64_t> tensor_elements) {
  std::vector<Block> blocks;
  for (std::size_t t = 0; t < tensor_elements.size(); ++t) {
    for (std::int64_t first = 0; first < tensor_elements[t]; first += kernels::kSumBlock) {
      blocks.push_back({static_cast<std::int32_t>(t), first,
                        std::min(kernels::kSumBlock, tensor_elements[t] - first)});
    }
  }
  return blocks;
}

std::int64_t elements_of(std::span<const Block> blocks, const BlockRange& range) {
  std::int64_t elements = 0;
  for (std::int64_t b = range.first; b < range.end; ++b) {
    elements += blocks[static_cast<std::size_t>(b)].count;
  }
  return elements;
}

std::vector<double> sum_by_tensor(std::span<const Block> blocks,
                                  const std::vector<SharedDoubles>& of_blocks,
                                  std::size_t tensors) {
  std::vector<double> sums(tensors, 0.0);
  auto block = blocks.begin(), tensor_end = block;
  for (const SharedDoubles& part : of_blocks) {
    SWARMPI_CHECK(std::ssize(part) <= blocks.end() - block, "one value a block");
    for (const double* value = part.begin(); value != part.end();) {
      const std::int32_t tensor = block->tensor;
      if (block == tensor_end) {
        tensor_end = std::partition_point(
            block, blocks.end(), [tensor](const Block& other) { return other.tensor == tensor; });
      }
      const std::ptrdiff_t count = std::min(tensor_end - block, part.end() - value);
      double& sum = sums[static_cast<std::size_t>(tensor)];
      sum = std::accumulate(value, value + count, sum);
      value += count;
      block += count;
    }
  }
  SWARMPI_CHECK(block == blocks.end(), "one value a block");
  return sums;
}

}  // namespace swarmpi
