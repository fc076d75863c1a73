#pragma once
// The one matrix product of the reference kernels. Each element is one sum in index order of k,
// starting from zero, so its bits depend on neither the blocking nor the vector width.

#include <algorithm>
#include <cstdint>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::reference {

inline constexpr std::int64_t kProductBlock = 64;  ///< rows and columns of a block of the result

/// A factor with any strides: element (i, j) at data + i * row_step + j * column_step.
template <class S>
struct Factor {
  const S* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 1;

  Factor transposed() const { return {data, column_step, row_step}; }
  Factor from_row(std::int64_t row) const { return {data + row * row_step, row_step, column_step}; }
  Factor from_column(std::int64_t column) const {
    return {data + column * column_step, row_step, column_step};
  }
};

template <class S>
Factor<S> factor(const MatrixView<const S>& m) {
  return {m.data, m.stride, 1};
}

/// block (kProductBlock, kProductBlock) = the first rows and columns of a (rows, inner) b (inner,
/// columns), neither above kProductBlock. Instantiated for float and double; double ignores the
/// precision.
template <class S>
void multiply_block(S* block, std::int64_t rows, std::int64_t columns, std::int64_t inner,
                    const Factor<S>& a, const Factor<S>& b, Precision precision);

/// Calls emit(i, j, value) for each element of a (rows, inner) b (inner, columns), once.
template <class S, class Emit>
void product(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Factor<S>& a,
             const Factor<S>& b, Precision precision, const Emit& emit) {
  S block[kProductBlock * kProductBlock];
  for (std::int64_t i0 = 0; i0 < rows; i0 += kProductBlock) {
    const std::int64_t m = std::min(kProductBlock, rows - i0);
    for (std::int64_t j0 = 0; j0 < columns; j0 += kProductBlock) {
      const std::int64_t n = std::min(kProductBlock, columns - j0);
      multiply_block(block, m, n, inner, a.from_row(i0), b.from_column(j0), precision);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) emit(i0 + i, j0 + j, block[i * kProductBlock + j]);
      }
    }
  }
}

}  // namespace swarmpi::kernels::reference
