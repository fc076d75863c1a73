#pragma once
// How a stage's blocks are cut into chunks for a reduction, and which way the chunks go.

#include <cstdint>
#include <vector>

#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

/// Chunk c belongs to the replica with index c mod k, in the order of ids. `direct`: every replica
/// sends its share to the owner, which sends the result to all. `ring`: shares are added from
/// neighbour to neighbour, and the result goes round likewise: a replica sends to one other only,
/// however many there are.
enum class ReductionPattern : std::uint8_t { direct, ring };

/// The pattern for this number of replicas and of chunks.
ReductionPattern reduction_pattern(std::int64_t replicas, std::int64_t chunks);

/// The blocks of a stage cut into chunks of neighbouring blocks: one chunk where there is one
/// replica, else so many that every replica owns some; a chunk has at most `most_elements`, or is a
/// single block.
std::vector<BlockRange> cut_into_chunks(const std::vector<Block>& blocks, std::int64_t replicas,
                                        std::int64_t most_elements);

}  // namespace swarmpi
