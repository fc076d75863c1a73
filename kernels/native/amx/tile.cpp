#include "kernels/native/amx/tile.hpp"

#include <algorithm>

#include "kernels/native/stored.hpp"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace swarmpi::kernels::native {

namespace {

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__linux__)
bool processor_has_tiles() {
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0 && (d & kAmxTile) != 0;
}
/// Of all threads of this process, for as long as it lives.
bool system_permits_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool processor_has_tiles() { return false; }
bool system_permits_tiles() { return false; }
#endif

/// The operand of ldtilecfg: eight tiles of 16 rows of 64 bytes.
struct TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

/// 16 elements of a row from column c on, zeros behind `columns`.
template <class T>
Vector elements_at(const T* row, std::int64_t c, std::int64_t columns) {
  if (c + kVectorLanes <= columns) return load(row + c);
  return c < columns ? load_part(row + c, columns - c) : Vector{};
}

/// 32 elements of a row from column c on, likewise.
template <class T>
VectorLine line_at(const T* row, std::int64_t c, std::int64_t columns) {
  if constexpr (sizeof(T) == 2) {
    if (c + kLineElements <= columns) return load_line(row + c);
  }
  return bf16_line(elements_at(row, c, columns), elements_at(row, c + kVectorLanes, columns));
}

}  // namespace

bool may_use_tiles() {
  static const bool may = processor_has_tiles() && system_permits_tiles();
  return may;
}

#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
TilesInUse::TilesInUse() {
  alignas(64) static constexpr TileConfiguration kConfiguration;
  _tile_loadconfig(&kConfiguration);
}
TilesInUse::~TilesInUse() { _tile_release(); }
#else
TilesInUse::TilesInUse() = default;
TilesInUse::~TilesInUse() = default;
#endif

void pack_left(std::uint16_t* to, const ConstFactor& from, std::int64_t first) {
  const std::int64_t rows = std::min(kBlockSide, from.rows - first);
  const std::int64_t columns = from.columns;
  with_rows(from, [&](const auto stored) {
    for (std::int64_t c = 0; c < columns; c += kBlockSide, to += kBlockElements) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto* const row = stored.row(first + r);
        store_line(to + r * kLineElements, line_at(row, c, columns));
      }
      std::fill(to + rows * kLineElements, to + kBlockElements, std::uint16_t{0});
    }
  });
}

void right_of_left(std::uint16_t* to, const std::uint16_t* left) {
  for (std::int64_t pair = 0; pair < kBlockSide / 2; ++pair) {
    put_right_pair(to, pair, load_line(left + 2 * pair * kLineElements),
                   load_line(left + (2 * pair + 1) * kLineElements));
  }
}

void transpose_words(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride) {
  VectorBits r[16], s[16];
  for (int i = 0; i < 16; ++i) {
    std::memcpy(&r[i], static_cast<const char*>(from) + i * from_stride, sizeof r[i]);
  }
  // Words, pairs of words, and quarters change places within quarters, then quarters.
  for (int i = 0; i < 16; i += 2) {
    s[i] = __builtin_shuffle(r[i], r[i + 1],
                             VectorBits{0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29});
    s[i + 1] = __builtin_shuffle(
        r[i], r[i + 1], VectorBits{2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31});
  }
  const VectorBits lower_pairs = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
  const VectorBits upper_pairs = {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = __builtin_shuffle(s[i + j], s[i + j + 2], lower_pairs);
      r[i + 2 * j + 1] = __builtin_shuffle(s[i + j], s[i + j + 2], upper_pairs);
    }
  }
  // Now quarter q of r[4 i + c] is column 4 q + c of rows 4 i to 4 i + 3.
  const VectorBits even = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
  const VectorBits odd = {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};
  for (int c = 0; c < 4; ++c) {
    const VectorBits even01 = __builtin_shuffle(r[c], r[4 + c], even);
    const VectorBits even23 = __builtin_shuffle(r[8 + c], r[12 + c], even);
    const VectorBits odd01 = __builtin_shuffle(r[c], r[4 + c], odd);
    const VectorBits odd23 = __builtin_shuffle(r[8 + c], r[12 + c], odd);
    s[c] = __builtin_shuffle(even01, even23, even);
    s[8 + c] = __builtin_shuffle(even01, even23, odd);
    s[4 + c] = __builtin_shuffle(odd01, odd23, even);
    s[12 + c] = __builtin_shuffle(odd01, odd23, odd);
  }
  for (int i = 0; i < 16; ++i) {
    std::memcpy(static_cast<char*>(to) + i * to_stride, &s[i], sizeof s[i]);
  }
}

void transpose_block(std::uint16_t* to, const std::uint16_t* from) {
  constexpr std::int64_t kTile = kBlockElements / 2;
  for (int tile = 0; tile < 2; ++tile) {
    transpose_words(to + tile * kTile, kTileLineBytes, from + tile * kTile, kTileLineBytes);
  }
}

void transpose_block(float* to, std::int64_t to_stride, const float* from,
                     std::int64_t from_stride) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));
  for (std::int64_t i = 0; i < kBlockSide; i += kVectorLanes) {
    for (std::int64_t j = 0; j < kBlockSide; j += kVectorLanes) {
      transpose_words(to + j * to_stride + i, to_stride * kBytes, from + i * from_stride + j,
                      from_stride * kBytes);
    }
  }
}

}  // namespace swarmpi::kernels::native
