#pragma once
// How a stage's blocks are cut into chunks for a reduction, and which way the chunks go.

#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

/// Chunk c belongs to the replica with index c mod k, in the order of ids, unless each owns a
/// range. `direct`: every replica sends its share to the owner, which sends the result to all.
/// `ring`: shares are added from neighbour to neighbour, and the result goes round likewise: a
/// replica sends to one other only, however many there are.
enum class ReductionPattern : std::uint8_t { direct, ring };

/// What a replica owns of its stage where each owns a range (method "zero_offload"): the range at
/// `place` of `owners`, in the order of ids. One owner has all.
struct Ownership {
  std::int64_t place = 0;
  std::int64_t owners = 1;

  bool operator==(const Ownership&) const = default;
};
SWARMPI_FIELDS(Ownership, place, owners);

/// The pattern for this number of replicas and of chunks.
ReductionPattern reduction_pattern(std::int64_t replicas, std::int64_t chunks);

/// How large a chunk may be where a stage has so many elements: a quarter of a replica's part, so
/// that it can send one while it adds up another; of many replicas all of it, for each chunk goes
/// to all of them; but neither too small to be worth a message nor too large to wait for.
std::int64_t chunk_elements(std::int64_t elements, std::int64_t replicas);

/// The ranges of blocks that so many owners have, as even as blocks are. Some are empty where there
/// are fewer blocks than owners.
std::vector<BlockRange> owned_ranges(const std::vector<Block>& blocks, std::int64_t owners);
/// A stage cut into chunks, none of which reaches over two ranges, by most_elements as below.
struct OwnedChunks {
  std::vector<BlockRange> chunks;
  std::vector<std::int64_t> owners;  ///< of each: its place
};
OwnedChunks cut_into_owned_chunks(const std::vector<Block>& blocks, std::int64_t owners,
                                  std::optional<std::int64_t> most_elements);

/// The blocks of a stage cut into chunks of neighbouring blocks: one chunk where there is one
/// replica, else so many that every replica owns some; a chunk has at most `most_elements`, by
/// default as chunk_elements() says, or is a single block.
std::vector<BlockRange> cut_into_chunks(const std::vector<Block>& blocks, std::int64_t replicas,
                                        std::optional<std::int64_t> most_elements);

}  // namespace swarmpi
