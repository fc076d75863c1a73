#include "kernels/reference/product.hpp"

#include <cstring>

#include "kernels/bfloat16.hpp"

namespace swarmpi::kernels::reference {

namespace {

constexpr std::int64_t kInner = 128;  // of k, packed at a time
constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kTileColumns = 8;  // a tile's sums fill half of SSE2's registers

template <class S>
S rounded(S value, Precision precision) {
  if constexpr (sizeof(S) == sizeof(float)) {
    if (precision == Precision::bf16) return round_to_bf16(value);
  }
  return value;
}

/// Copies (lines, inner) elements into panels of `width` lines, [panel][k][line in panel], zeros
/// behind the last.
template <class S>
void pack(S* packed, std::int64_t width, std::int64_t lines, std::int64_t inner,
          const Factor<S>& from, Precision precision) {
  for (std::int64_t panel = 0; panel < lines; panel += width) {
    for (std::int64_t k = 0; k < inner; ++k) {
      const S* element = from.data + panel * from.row_step + k * from.column_step;
      for (std::int64_t line = 0; line < width; ++line) {
        const bool inside = panel + line < lines;
        *packed++ = inside ? rounded(element[line * from.row_step], precision) : S(0);
      }
    }
  }
}

/// block (4, 8) += a (inner, 4)^T b (inner, 8). Unrolled over rows and made vectors over columns by
/// the compiler, so that the sums stay in registers.
template <class S>
void multiply_tile(S* block, std::int64_t inner, const S* __restrict a, const S* __restrict b) {
  S sums[kTileRows][kTileColumns];
  for (std::int64_t i = 0; i < kTileRows; ++i) {
    std::memcpy(sums[i], block + i * kProductBlock, sizeof(sums[i]));
  }
  for (std::int64_t k = 0; k < inner; ++k, a += kTileRows, b += kTileColumns) {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 1
      for (std::int64_t j = 0; j < kTileColumns; ++j) sums[i][j] += a[i] * b[j];
    }
  }
  for (std::int64_t i = 0; i < kTileRows; ++i) {
    std::memcpy(block + i * kProductBlock, sums[i], sizeof(sums[i]));
  }
}

}  // namespace

template <class S>
void multiply_block(S* block, std::int64_t rows, std::int64_t columns, std::int64_t inner,
                    const Factor<S>& a, const Factor<S>& b, Precision precision) {
  alignas(64) S a_packed[kProductBlock * kInner];
  alignas(64) S b_packed[kProductBlock * kInner];
  std::fill_n(block, kProductBlock * kProductBlock, S(0));
  for (std::int64_t k0 = 0; k0 < inner; k0 += kInner) {
    const std::int64_t depth = std::min(kInner, inner - k0);
    pack(a_packed, kTileRows, rows, depth, a.from_column(k0), precision);
    pack(b_packed, kTileColumns, columns, depth, b.from_row(k0).transposed(), precision);
    for (std::int64_t j = 0; j < columns; j += kTileColumns) {
      for (std::int64_t i = 0; i < rows; i += kTileRows) {
        multiply_tile(block + i * kProductBlock + j, depth, a_packed + i * depth,
                      b_packed + j * depth);
      }
    }
  }
}

template void multiply_block(float*, std::int64_t, std::int64_t, std::int64_t, const Factor<float>&,
                             const Factor<float>&, Precision);
template void multiply_block(double*, std::int64_t, std::int64_t, std::int64_t,
                             const Factor<double>&, const Factor<double>&, Precision);

}  // namespace swarmpi::kernels::reference
