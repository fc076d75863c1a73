#pragma once
// What products multiply: a matrix as it lies, or in panels.

#include <cstdint>

namespace swarmpi::kernels::native {

/// A factor of a product: rows of `stride` elements, read transposed or not; or, of right factors
/// in bf16, panels of so many columns (tile.hpp), each of whole blocks of kPanelRows rows.
struct Factor {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool is_transposed = false;
  std::int64_t panel_columns = 0;

  Factor transposed() const { return {data, stride, !is_transposed}; }
};
inline constexpr std::int64_t kPanelRows = 32;

}  // namespace swarmpi::kernels::native
