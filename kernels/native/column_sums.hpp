#pragma once
// Sums over rows in a fixed order: index order within blocks of 64 rows, then block after block.

#include "kernels/native/aligned_memory.hpp"

namespace swarmpi::kernels::native {

inline constexpr std::int64_t kSumRows = 64;

/// sums (columns) = column sums of m, or += them.
void column_sums(float* sums, Write write, ConstFactor m, Scratch& scratch);

/// totals (count) = partials (blocks, stride) added in index order, or += them.
void add_partials(float* totals, Write write, const float* partials, std::int64_t blocks,
                  std::int64_t stride, std::int64_t count);

}  // namespace swarmpi::kernels::native
