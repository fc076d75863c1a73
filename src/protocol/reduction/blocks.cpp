#include "protocol/reduction/blocks.hpp"

#include <algorithm>

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

std::vector<double> sum_by_tensor(std::span<const Block> blocks, std::span<const double> of_blocks,
                                  std::size_t tensors) {
  SWARMPI_CHECK(blocks.size() == of_blocks.size(), "one value a block");
  std::vector<double> sums(tensors, 0.0);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    sums[static_cast<std::size_t>(blocks[b].tensor)] += of_blocks[b];
  }
  return sums;
}

}  // namespace swarmpi
