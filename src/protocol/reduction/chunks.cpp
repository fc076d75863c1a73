#include "protocol/reduction/chunks.hpp"

#include <algorithm>

namespace swarmpi {
namespace {

// Above this number of replicas the ring is used. Direct shares are unpacked once each and take two
// hops; round a ring each hop unpacks and packs again.
constexpr std::int64_t kMostDirectReplicas = 16;

constexpr std::int64_t kChunksAReplica = 4;
// Of a stage, where these are not fewer than its replicas.
constexpr std::int64_t kMostChunksForOverlap = 96;
constexpr std::int64_t kLeastChunkElements = 1 << 17;
constexpr std::int64_t kMostChunkElements = 1 << 20;  // 4 MB of fp32

/// The blocks of the range in so many chunks, as even as blocks are; in fewer where there are not
/// as many blocks.
std::vector<BlockRange> cut(const std::vector<Block>& blocks, const BlockRange& range,
                            std::int64_t wanted) {
  const std::int64_t all = elements_of(blocks, range);
  std::vector<BlockRange> chunks;
  std::int64_t passed = 0;  // elements
  BlockRange open{range.first, range.first};
  while (open.end < range.end) {
    const std::int64_t due = ((std::ssize(chunks) + 1) * all + wanted - 1) / wanted;
    while (open.end < range.end && (passed < due || open.end == open.first)) {
      passed += blocks[static_cast<std::size_t>(open.end++)].count;
    }
    if (passed < due) break;
    chunks.push_back(open);
    open.first = open.end;
  }
  return chunks;
}

}  // namespace

ReductionPattern reduction_pattern(std::int64_t replicas, std::int64_t chunks) {
  const bool ring = replicas > kMostDirectReplicas && chunks >= replicas;
  return ring ? ReductionPattern::ring : ReductionPattern::direct;
}

std::int64_t chunk_elements(std::int64_t elements, std::int64_t replicas) {
  const std::int64_t chunks =
      std::max(replicas, std::min(kChunksAReplica * replicas, kMostChunksForOverlap));
  return std::clamp((elements + chunks - 1) / chunks, kLeastChunkElements, kMostChunkElements);
}

std::vector<BlockRange> cut_into_chunks(const std::vector<Block>& blocks, std::int64_t replicas,
                                        std::optional<std::int64_t> most_elements) {
  const auto count = static_cast<std::int64_t>(blocks.size());
  if (count == 0) return {};
  if (replicas == 1) return {{0, count}};
  const std::int64_t all = elements_of(blocks, {0, count});
  const std::int64_t most = most_elements.value_or(chunk_elements(all, replicas));
  const std::int64_t needed = std::max(replicas, (all + most - 1) / most);
  return cut(blocks, {0, count}, (needed + replicas - 1) / replicas * replicas);
}

std::vector<BlockRange> owned_ranges(const std::vector<Block>& blocks, std::int64_t owners) {
  const std::int64_t all = elements_of(blocks, {0, std::ssize(blocks)});
  std::vector<BlockRange> ranges;
  std::int64_t passed = 0;  // elements
  BlockRange open;
  for (const Block& block : blocks) {
    passed += block.count;
    ++open.end;
    while (std::ssize(ranges) < owners && passed * owners >= (std::ssize(ranges) + 1) * all) {
      ranges.push_back(open);
      open.first = open.end;
    }
  }
  return ranges;
}

OwnedChunks cut_into_owned_chunks(const std::vector<Block>& blocks, std::int64_t owners,
                                  std::optional<std::int64_t> most_elements) {
  const std::int64_t all = elements_of(blocks, {0, std::ssize(blocks)});
  const std::int64_t most = most_elements.value_or(chunk_elements(all, owners));
  const std::vector<BlockRange> ranges = owned_ranges(blocks, owners);
  OwnedChunks owned;
  for (std::size_t place = 0; place < ranges.size(); ++place) {
    const std::int64_t elements = elements_of(blocks, ranges[place]);
    for (const BlockRange& chunk : cut(blocks, ranges[place], (elements + most - 1) / most)) {
      owned.chunks.push_back(chunk);
      owned.owners.push_back(static_cast<std::int64_t>(place));
    }
  }
  return owned;
}

}  // namespace swarmpi
