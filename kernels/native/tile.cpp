#include "kernels/native/tile.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/native/parallel.hpp"
#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

const bool kMultipliesBf16Pairs = kHasBf16Pairs;
#if defined(__AMX_BF16__)
const bool kBf16PairsAreFaster = false;
#else
const bool kBf16PairsAreFaster = kHasBf16Pairs;
#endif

namespace {

constexpr std::int64_t kColumns = kTileVectors * kVectorLanes;

std::int64_t panels_of(std::int64_t columns) { return (columns + kColumns - 1) / kColumns; }

/// c (kRows, kVectors of columns) = a b, or += a b. `b`: one panel.
template <class T, int kVectors, int kRows>
void tile(float* c, std::int64_t c_stride, const LeftFactor<T>& a, const T* b, std::int64_t words,
          Write write) {
  Vector sums[kRows][kVectors] = {};
  const T* left = a.data;
  const std::int64_t row_step = a.row_step;
  for (std::int64_t k = 0; k < words; ++k) {
    Vector right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = load_words(b + v * kVectorLanes * kPerWord<T>);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = multiply_word(left + r * row_step, right[v], sums[r][v]);
      }
    }
    left += a.word_step;
    b += kColumns * kPerWord<T>;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + r * c_stride + v * kVectorLanes;
      store_vector(to, write == Write::add ? load(to) + sums[r][v] : sums[r][v]);
    }
  }
}

template <class T>
using TileFunction = void (*)(float*, std::int64_t, const LeftFactor<T>&, const T*, std::int64_t,
                              Write);
/// By rows less one.
template <class T>
using TilesOfRows = std::array<TileFunction<T>, kMostTileRows>;
template <class T, int kVectors, int... kRows>
constexpr TilesOfRows<T> tiles_of_rows(std::integer_sequence<int, kRows...> /*rows*/) {
  return {tile<T, kVectors, kRows + 1>...};
}
/// By vectors less one.
template <class T, int... kVectors>
constexpr std::array<TilesOfRows<T>, kTileVectors> tiles(
    std::integer_sequence<int, kVectors...> /*vectors*/) {
  return {tiles_of_rows<T, kVectors + 1>(std::make_integer_sequence<int, kMostTileRows>())...};
}

/// The same where c has no room for a whole tile's columns.
template <class T>
void narrow_tile(TileFunction<T> multiply, Matrix c, const LeftFactor<T>& a, const T* b,
                 std::int64_t words, Write write) {
  alignas(64) float room[kMostTileRows * kColumns];
  for (std::int64_t r = 0; r < c.rows && write == Write::add; ++r) {
    std::copy_n(c.row(r), c.columns, room + r * kColumns);
    std::fill(room + r * kColumns + c.columns, room + (r + 1) * kColumns, 0.0f);
  }
  multiply(room, kColumns, a, b, words, write);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    std::copy_n(room + r * kColumns, c.columns, c.row(r));
  }
}

using Words8 = std::uint32_t __attribute__((vector_size(32)));

/// 8 x 8 words, rows of `from` to columns of `to`.
void transpose8(char* to, std::int64_t to_stride, const char* from, std::int64_t from_stride) {
  Words8 r[8], s[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&r[i], from + i * from_stride, sizeof r[i]);
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shuffle(r[i], r[i + 1], Words8{0, 8, 1, 9, 4, 12, 5, 13});
    s[i + 1] = __builtin_shuffle(r[i], r[i + 1], Words8{2, 10, 3, 11, 6, 14, 7, 15});
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = __builtin_shuffle(s[i + j], s[i + j + 2], Words8{0, 1, 8, 9, 4, 5, 12, 13});
      r[i + 2 * j + 1] =
          __builtin_shuffle(s[i + j], s[i + j + 2], Words8{2, 3, 10, 11, 6, 7, 14, 15});
    }
  }
  for (int i = 0; i < 4; ++i) {
    s[i] = __builtin_shuffle(r[i], r[i + 4], Words8{0, 1, 2, 3, 8, 9, 10, 11});
    s[i + 4] = __builtin_shuffle(r[i], r[i + 4], Words8{4, 5, 6, 7, 12, 13, 14, 15});
  }
  for (int i = 0; i < 8; ++i) std::memcpy(to + i * to_stride, &s[i], sizeof s[i]);
}

void interleaved(float* to, const float* a, const float* /*b*/, std::int64_t count) {
  if (count == kColumns) {
    std::memcpy(to, a, kColumns * sizeof(float));  // of a size that the compiler knows
  } else {
    std::copy_n(a, count, to);
  }
}
/// Pairs of a and b.
void interleave(std::uint16_t* __restrict to, const std::uint16_t* __restrict a,
                const std::uint16_t* __restrict b, std::int64_t count) {
  const std::int64_t whole = count / kVectorLanes * kVectorLanes;
  for (std::int64_t i = 0; i < whole; i += kVectorLanes) {
    const VectorBits pairs = bf16_pairs(a + i, b + i);
    std::memcpy(to + 2 * i, &pairs, sizeof pairs);
  }
  for (std::int64_t i = whole; i < count; ++i) {
    to[2 * i] = a[i];
    to[2 * i + 1] = b[i];
  }
}

/// `b` may be null: zeros.
void interleaved(std::uint16_t* to, const std::uint16_t* a, const std::uint16_t* b,
                 std::int64_t count) {
  if (b != nullptr) return interleave(to, a, b, count);
  for (std::int64_t i = 0; i < count; ++i) {
    to[2 * i] = a[i];
    to[2 * i + 1] = 0;
  }
}

}  // namespace

const std::int64_t kTileColumns = kColumns;

template <class T>
std::int64_t packed_elements(std::int64_t inner, std::int64_t columns) {
  return panels_of(columns) * kColumns * words_of<T>(inner) * kPerWord<T>;
}

template <class T>
void pack(const RightFactor<T>& packed, const T* from, std::int64_t stride, std::int64_t inner,
          std::int64_t columns) {
  const std::int64_t width = packed.panel_columns;
  for (std::int64_t first = 0; first < columns; first += width) {
    const std::int64_t count = std::min(width, columns - first);
    T* to = packed.panel(first / width);
    for (std::int64_t k = 0; k < words_of<T>(inner); ++k, to += width * kPerWord<T>) {
      const std::int64_t row = k * kPerWord<T>;
      const T* const a = from + row * stride + first;
      interleaved(to, a, row + 1 < inner ? a + stride : nullptr, count);
      std::fill(to + count * kPerWord<T>, to + width * kPerWord<T>, T(0));
    }
  }
}

template <class T>
void pack_transposed(const RightFactor<T>& packed, const T* from, std::int64_t stride,
                     std::int64_t inner, std::int64_t columns) {
  constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t width = packed.panel_columns;
  const std::int64_t words = words_of<T>(inner);
  const std::int64_t whole = inner / (8 * kPerWord<T>)*8;  // words in blocks of eight
  for (std::int64_t first = 0; first < columns; first += width) {
    T* const to = packed.panel(first / width);
    for (std::int64_t c = 0; c < width; c += 8) {
      const T* const rows = from + (first + c) * stride;
      const bool all = first + c + 8 <= columns;
      for (std::int64_t k = 0; k < whole && all; k += 8) {
        transpose8(reinterpret_cast<char*>(to + (k * width + c) * kPerWord<T>), width * 4,
                   reinterpret_cast<const char*>(rows + k * kPerWord<T>), stride * kElementBytes);
      }
      for (std::int64_t k = all ? whole : 0; k < words; ++k) {
        for (std::int64_t i = 0; i < 8; ++i) {
          T* const word = to + (k * width + c + i) * kPerWord<T>;
          for (std::int64_t e = 0; e < kPerWord<T>; ++e) {
            const std::int64_t column = k * kPerWord<T> + e;
            const bool inside = first + c + i < columns && column < inner;
            word[e] = inside ? rows[i * stride + column] : T(0);
          }
        }
      }
    }
  }
}

namespace {

/// Words of the inner dimension.
struct Words {
  std::int64_t begin, end;
};
/// Those that rows [first, end) have something in.
template <class T>
Words words_of_rows(const LeftFactor<T>& a, std::int64_t first, std::int64_t end,
                    std::int64_t words) {
  switch (a.zeros) {
    case Zeros::nowhere:
      break;
    case Zeros::behind_diagonal:
      return {0, std::clamp<std::int64_t>(words_of<T>(end + a.diagonal), 0, words)};
    case Zeros::before_transposed_diagonal:
      return {std::clamp<std::int64_t>((first - a.diagonal) / kPerWord<T>, 0, words), words};
  }
  return {0, words};
}

}  // namespace

template <class T>
void multiply_tiles(Matrix c, const LeftFactor<T>& a, const RightFactor<T>& b, std::int64_t words,
                    Write write, std::int64_t diagonal) {
  static constexpr auto kTiles = tiles<T>(std::make_integer_sequence<int, kTileVectors>());
  // As even as they can be: a tile of few rows is slow.
  const std::int64_t row_tiles = blocks_of(c.rows, kMostTileRows);
  const std::int64_t least_rows = c.rows / row_tiles;
  const std::int64_t higher = c.rows % row_tiles;  // tiles with a row more
  for (std::int64_t column = 0; column < c.columns; column += kColumns) {
    const T* const panel = b.panel(column / kColumns);
    for (std::int64_t first = 0, t = 0, rows = 0; t < row_tiles; ++t, first += rows) {
      rows = least_rows + (t < higher ? 1 : 0);
      const std::int64_t seen = std::min(c.columns, first + rows + diagonal) - column;
      if (seen <= 0) continue;
      const std::int64_t vectors = blocks_of(std::min(seen, kColumns), kVectorLanes);
      const std::int64_t columns = std::min(vectors * kVectorLanes, c.columns - column);
      const TileFunction<T> multiply =
          kTiles[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(rows - 1)];
      const Words needed = words_of_rows(a, first, first + rows, words);
      const LeftFactor<T> left{a.data + first * a.row_step + needed.begin * a.word_step, a.row_step,
                               a.word_step};
      const T* const right = panel + needed.begin * kColumns * kPerWord<T>;
      const std::int64_t count = needed.end - needed.begin;
      const Matrix to{c.row(first) + column, rows, columns, c.stride};
      if (columns == vectors * kVectorLanes) {
        multiply(to.data, to.stride, left, right, count, write);
      } else {
        narrow_tile(multiply, to, left, right, count, write);
      }
    }
  }
}

#define SWARMPI_INSTANTIATE(T)                                                                    \
  template std::int64_t packed_elements<T>(std::int64_t, std::int64_t);                           \
  template void pack(const RightFactor<T>&, const T*, std::int64_t, std::int64_t, std::int64_t);  \
  template void pack_transposed(const RightFactor<T>&, const T*, std::int64_t, std::int64_t,      \
                                std::int64_t);                                                    \
  template void multiply_tiles(Matrix, const LeftFactor<T>&, const RightFactor<T>&, std::int64_t, \
                               Write, std::int64_t);
SWARMPI_INSTANTIATE(float)
SWARMPI_INSTANTIATE(std::uint16_t)
#undef SWARMPI_INSTANTIATE

}  // namespace swarmpi::kernels::native
