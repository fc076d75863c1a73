#pragma once
// Products of bf16 in the tiles of AMX: registers of 16 rows of 64 bytes. Factors are packed in
// blocks of 32 x 32 elements, which are 32 lines of 64 bytes and two tiles:
// - of a left factor, line r is row r;
// - of a right factor, line 16 h + p is the pairs of elements of rows 2 p and 2 p + 1, columns 16 h
//   to 16 h + 15.
// Blocks that follow one another along the inner dimension lie one after another. Each element of a
// result is a chain of sums over 32 elements of the inner dimension each, so its bits depend on no
// block's place; numbers below 2^-126 count as zero.

#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/native/vectors.hpp"

namespace swarmpi::kernels::native {

inline constexpr std::int64_t kBlockSide = 32;
inline constexpr std::int64_t kLineElements = kBlockSide;
inline constexpr std::int64_t kTileLineBytes = kLineElements * sizeof(std::uint16_t);
inline constexpr std::int64_t kBlockElements = kBlockSide * kBlockSide;

/// Whether this process may use tiles: this build and this processor have them, and the system,
/// which is asked once, permits their use.
bool may_use_tiles();

/// While one lives, its thread's tiles are configured for multiply_tile_pairs(); libraries
/// configure them otherwise. REQUIRES: may_use_tiles().
class TilesInUse {
 public:
  TilesInUse();
  ~TilesInUse();
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

/// A factor in panels, which are rows of blocks of a left factor or columns of blocks of a right
/// one: each has all of the inner dimension.
struct Panels {
  std::uint16_t* data = nullptr;
  std::int64_t inner_blocks = 0;

  std::uint16_t* block(std::int64_t panel, std::int64_t inner) const {
    return data + (panel * inner_blocks + inner) * kBlockElements;
  }
};

/// 32 x 32 elements of a factor at a time, wherever the 16 lines of their two tiles lie.
struct TilePairs {
  const std::uint16_t* data;
  std::int64_t line_step, tile_step, inner_step;  ///< elements: to the next line, tile and block

  TilePairs from(std::int64_t block) const {
    return {data + block * inner_step, line_step, tile_step, inner_step};
  }
};
/// Those of blocks.
inline TilePairs tiles_of(const std::uint16_t* blocks) {
  return {blocks, kLineElements, kBlockElements / 2, kBlockElements};
}

#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
/// c (32, 32) = left right, or += left right, over `count` blocks of the inner dimension.
/// REQUIRES: count > 0, TilesInUse.
inline void multiply_tile_pairs(float* c, std::int64_t c_stride, const TilePairs& left,
                                const TilePairs& right, std::int64_t count, Write write) {
  constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(std::uint16_t));
  const std::int64_t bytes = c_stride * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t left_bytes = left.line_step * kElementBytes;
  const std::int64_t right_bytes = right.line_step * kElementBytes;
  float* const lower = c + kBlockSide / 2 * c_stride;
  // Compilers do not know that tiles are loaded from memory.
  asm volatile("" ::: "memory");
  if (write == Write::add) {
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + kVectorLanes, bytes);
    _tile_loadd(2, lower, bytes);
    _tile_loadd(3, lower + kVectorLanes, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const std::uint16_t* a = left.data;
  const std::uint16_t* b = right.data;
  for (std::int64_t k = 0; k < count; ++k) {
    _tile_loadd(4, a, left_bytes);
    _tile_loadd(6, b, right_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + right.tile_step, right_bytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + left.tile_step, left_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += left.inner_step;
    b += right.inner_step;
  }
  _tile_stored(0, c, bytes);
  _tile_stored(1, c + kVectorLanes, bytes);
  _tile_stored(2, lower, bytes);
  _tile_stored(3, lower + kVectorLanes, bytes);
}
#else
inline void multiply_tile_pairs(float* /*c*/, std::int64_t /*c_stride*/, const TilePairs& /*left*/,
                                const TilePairs& /*right*/, std::int64_t /*count*/,
                                Write /*write*/) {}
#endif
/// The same of blocks.
inline void multiply_blocks(float* c, std::int64_t c_stride, const std::uint16_t* left,
                            const std::uint16_t* right, std::int64_t count, Write write) {
  multiply_tile_pairs(c, c_stride, tiles_of(left), tiles_of(right), count, write);
}

/// Puts rows 2 * pair and 2 * pair + 1, of 32 elements each, into a block of a right factor.
inline void put_right_pair(std::uint16_t* block, std::int64_t pair, VectorLine even,
                           VectorLine odd) {
  store_line(block + pair * kLineElements, lower_pairs(even, odd));
  store_line(block + (kBlockSide / 2 + pair) * kLineElements, upper_pairs(even, odd));
}

/// Rows [first, first + 32) of `from` as blocks of a left factor, zeros where it ends.
void pack_left(std::uint16_t* to, const ConstFactor& from, std::int64_t first);
/// to = the right factor that is the same 32 x 32 elements as this left one.
void right_of_left(std::uint16_t* to, const std::uint16_t* left);
/// 16 x 16 words of 32 bits: rows of `from` become columns of `to`. Strides: bytes.
void transpose_words(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride);
/// to = the transposed elements: of a left factor as a right one, or the other way round.
void transpose_block(std::uint16_t* to, const std::uint16_t* from);
/// The same of 32 x 32 fp32.
void transpose_block(float* to, std::int64_t to_stride, const float* from,
                     std::int64_t from_stride);

}  // namespace swarmpi::kernels::native
