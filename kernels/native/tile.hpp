#pragma once
// Small matrix products in registers, for what is too small for a library: the blocks of attention.
// Factors are in words of 32 bits: one fp32, or two bf16 that follow one another along the inner
// dimension. Each element of a result is one chain of multiply-adds over the words in order, so its
// bits depend on no tile's size and, in fp32, on no width of vectors.

#include <cstdint>

#include "kernels/backend.hpp"

namespace swarmpi::kernels::native {

/// Whether this build multiplies pairs of bf16 in vectors, and whether it does so faster than fp32:
/// not where the processor has AMX, whose vectors' own products of bf16 are slow.
extern const bool kMultipliesBf16Pairs;
extern const bool kBf16PairsAreFaster;

/// T: float or std::uint16_t, the bits of a bf16.
template <class T>
inline constexpr std::int64_t kPerWord = 4 / static_cast<std::int64_t>(sizeof(T));
template <class T>
constexpr std::int64_t words_of(std::int64_t inner) {
  return (inner + kPerWord<T> - 1) / kPerWord<T>;
}

/// Columns that are multiplied at once: right factors are packed in panels of so many.
extern const std::int64_t kTileColumns;
/// Elements of a packed right factor (inner, columns).
template <class T>
std::int64_t packed_elements(std::int64_t inner, std::int64_t columns);

/// A packed right factor with so many words of the inner dimension. multiply_tiles() takes panels
/// of kTileColumns.
template <class T>
struct RightFactor {
  T* data;
  std::int64_t words;
  std::int64_t panel_columns = kTileColumns;

  T* panel(std::int64_t p) const { return data + p * words * panel_columns * kPerWord<T>; }
};

/// Packs (inner, columns), rows of `stride` elements, into the first words of all panels, filled up
/// with zeros to whole words and panels.
template <class T>
void pack(const RightFactor<T>& to, const T* from, std::int64_t stride, std::int64_t inner,
          std::int64_t columns);
/// The same from its transpose (columns, inner). REQUIRES: panels of a multiple of eight columns.
template <class T>
void pack_transposed(const RightFactor<T>& to, const T* from, std::int64_t stride,
                     std::int64_t inner, std::int64_t columns);

/// What is zero in a left factor whose elements (r, r + diagonal), or (r + diagonal, r) where it is
/// a transpose, are the last, or the first, that are not.
enum class Zeros : std::uint8_t { nowhere, behind_diagonal, before_transposed_diagonal };

/// A left factor (rows, inner): word k of row i is at data + i * row_step + k * word_step
/// (elements).
template <class T>
struct LeftFactor {
  const T* data;
  std::int64_t row_step, word_step;
  Zeros zeros = Zeros::nowhere;
  std::int64_t diagonal = 0;
};

/// A result's diagonal that is behind all columns.
inline constexpr std::int64_t kWhole = std::int64_t{1} << 40;
/// c = a b, or c += a b, over the first `words` words of the inner dimension. Tiles leave out what
/// is zero in `a` (which changes no finite result but for the sign of a zero), and of c what is
/// behind its elements (r, r + diagonal): that is not needed, and may be left as it was.
template <class T>
void multiply_tiles(Matrix c, const LeftFactor<T>& a, const RightFactor<T>& b, std::int64_t words,
                    Write write, std::int64_t diagonal = kWhole);

}  // namespace swarmpi::kernels::native
