#pragma once
// The gradient of a weight straight into its integer sums, some rows at a time: each strip is
// measured and converted while it is in the cache.

#include "kernels/native/product.hpp"

namespace swarmpi::kernels::native {

/// dy^T x (N, K), of which one strip of rows stands in `room`.
struct GradientStrips {
  Products& products;
  Factor dy;             // (R, N)
  Factor x;              // (R, K)
  std::int64_t inner;    // R
  std::int64_t outputs;  // N
  Matrix room;           // (rows of a strip, K)

  /// The strip from this row on. The same bits each time.
  ConstMatrix make(std::int64_t first);
};

/// add_gradient() of the whole gradient (see backend.hpp): one flagged element, and nothing of any
/// strip is added.
Contribution add_strips(std::int64_t* sums, Write write, GradientStrips& strips,
                        std::int16_t exponent, int bits, Scratch& scratch);

/// The same of dy^T x in the blocks that it is multiplied in. REQUIRES: products.has_blocks().
struct GradientBlocks {
  Products& products;
  Factor dy;                      // (R, N)
  Factor x;                       // (R, K)
  std::int64_t inner;             // R
  std::int64_t outputs, columns;  // N, K
};
Contribution add_blocks(std::int64_t* sums, Write write, const GradientBlocks& blocks,
                        std::int16_t exponent, int bits, Scratch& scratch);

}  // namespace swarmpi::kernels::native
