#include "kernels/native/tile.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

const bool kMultipliesBf16Pairs = kHasBf16Pairs;

namespace {

constexpr std::int64_t kColumns = kTileVectors * kVectorLanes;

std::int64_t panels_of(std::int64_t columns) { return (columns + kColumns - 1) / kColumns; }

/// c (kRows, kColumns) = a b, or += a b. `b`: one panel.
template <int kRows, class T>
void tile(float* c, std::int64_t c_stride, const LeftFactor<T>& a, const T* b, std::int64_t words,
          Write write) {
  Vector sums[kRows][kTileVectors] = {};
  const T* left = a.data;
  const std::int64_t row_step = a.row_step;
  for (std::int64_t k = 0; k < words; ++k) {
    Vector right[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v)
      right[v] = load_words(b + v * kVectorLanes * kPerWord<T>);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        sums[r][v] = multiply_word(left + r * row_step, right[v], sums[r][v]);
      }
    }
    left += a.word_step;
    b += kColumns * kPerWord<T>;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      float* const to = c + r * c_stride + v * kVectorLanes;
      store_vector(to, write == Write::add ? load(to) + sums[r][v] : sums[r][v]);
    }
  }
}

template <class T>
using TileFunction = void (*)(float*, std::int64_t, const LeftFactor<T>&, const T*, std::int64_t,
                              Write);
template <class T, int... kRows>
constexpr std::array<TileFunction<T>, sizeof...(kRows)> tiles(
    std::integer_sequence<int, kRows...> /*rows*/) {
  return {tile<kRows + 1, T>...};
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
void interleaved(std::uint16_t* to, const std::uint16_t* a, const std::uint16_t* b,
                 std::int64_t count) {
  interleave(to, a, b, count);
}

}  // namespace

const std::int64_t kTileColumns = kColumns;

void interleave(std::uint16_t* __restrict to, const std::uint16_t* __restrict a,
                const std::uint16_t* __restrict b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[2 * i] = a[i];
    to[2 * i + 1] = b[i];
  }
}

template <class T>
std::int64_t packed_elements(std::int64_t inner, std::int64_t columns) {
  return panels_of(columns) * kColumns * words_of<T>(inner) * kPerWord<T>;
}

template <class T>
void pack(const RightFactor<T>& packed, const T* from, std::int64_t stride, std::int64_t inner,
          std::int64_t columns) {
  static const T zeros[kColumns] = {};
  T* to = packed.data;
  const std::int64_t words = packed.words;
  for (std::int64_t first = 0; first < columns; first += kColumns) {
    const std::int64_t count = std::min(kColumns, columns - first);
    for (std::int64_t k = 0; k < words; ++k, to += kColumns * kPerWord<T>) {
      const std::int64_t row = k * kPerWord<T>;
      const T* const a = from + row * stride + first;
      const bool has_pair = kPerWord<T> == 2 && row + 1 < inner;
      interleaved(to, a, has_pair ? a + stride : zeros, count);
      std::fill(to + count * kPerWord<T>, to + kColumns * kPerWord<T>, T(0));
    }
  }
}

template <class T>
void pack_transposed(const RightFactor<T>& packed, const T* from, std::int64_t stride,
                     std::int64_t inner, std::int64_t columns) {
  constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t words = packed.words;
  const std::int64_t whole = inner / (8 * kPerWord<T>)*8;  // words in blocks of eight
  T* to = packed.data;
  for (std::int64_t first = 0; first < columns; first += kColumns) {
    for (std::int64_t c = 0; c < kColumns; c += 8) {
      const T* const rows = from + (first + c) * stride;
      const bool all = first + c + 8 <= columns;
      for (std::int64_t k = 0; k < whole && all; k += 8) {
        transpose8(reinterpret_cast<char*>(to + (k * kColumns + c) * kPerWord<T>), kColumns * 4,
                   reinterpret_cast<const char*>(rows + k * kPerWord<T>), stride * kElementBytes);
      }
      for (std::int64_t k = all ? whole : 0; k < words; ++k) {
        for (std::int64_t i = 0; i < 8; ++i) {
          T* const word = to + (k * kColumns + c + i) * kPerWord<T>;
          for (std::int64_t e = 0; e < kPerWord<T>; ++e) {
            const std::int64_t column = k * kPerWord<T> + e;
            const bool inside = first + c + i < columns && column < inner;
            word[e] = inside ? rows[i * stride + column] : T(0);
          }
        }
      }
    }
    to += words * kColumns * kPerWord<T>;
  }
}

template <class T>
void multiply_tiles(Matrix c, const LeftFactor<T>& a, const RightFactor<T>& b, std::int64_t words,
                    Write write) {
  static constexpr auto kTiles = tiles<T>(std::make_integer_sequence<int, kMostTileRows>());
  // As even as they can be: a tile of few rows is slow.
  const std::int64_t row_tiles = (c.rows + kMostTileRows - 1) / kMostTileRows;
  for (std::int64_t column = 0; column < c.columns; column += kColumns) {
    const T* const panel = b.data + column * b.words * kPerWord<T>;
    const bool whole = column + kColumns <= c.columns;
    for (std::int64_t t = 0; t < row_tiles; ++t) {
      const std::int64_t first = t * c.rows / row_tiles;
      const std::int64_t rows = (t + 1) * c.rows / row_tiles - first;
      const TileFunction<T> multiply = kTiles[static_cast<std::size_t>(rows - 1)];
      const LeftFactor<T> part{a.data + first * a.row_step, a.row_step, a.word_step};
      float* const to = c.row(first) + column;
      if (whole) {
        multiply(to, c.stride, part, panel, words, write);
      } else {
        narrow_tile(multiply, {to, rows, c.columns - column, c.stride}, part, panel, words, write);
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
                               Write);
SWARMPI_INSTANTIATE(float)
SWARMPI_INSTANTIATE(std::uint16_t)
#undef SWARMPI_INSTANTIATE

}  // namespace swarmpi::kernels::native
