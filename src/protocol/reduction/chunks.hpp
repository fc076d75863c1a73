#pragma once
// How a stage's blocks are dealt to its replicas for a reduction, and which way they go.

#include <cstdint>
#include <vector>

#include "protocol/reduction/blocks.hpp"

namespace swarmpi {

/// Chunk c belongs to the replica at place c mod k. `direct`: everybody sends its share to the
/// owner, who sends the result to everybody. `ring`: shares are added up from neighbour to
/// neighbour, and the result goes round likewise: a peer talks to two others only, however many
/// there are.
enum class ReductionPattern : std::uint8_t { direct, ring };

/// The pattern for so many replicas and chunks.
ReductionPattern reduction_pattern(std::int64_t replicas, std::int64_t chunks);

/// The blocks of a stage cut into chunks of neighbouring blocks: one where there is one replica,
/// else enough that every replica owns some, and none above `most_elements` but for single blocks.
std::vector<BlockRange> cut_into_chunks(const std::vector<Block>& blocks, std::int64_t replicas,
                                        std::int64_t most_elements);

}  // namespace swarmpi
