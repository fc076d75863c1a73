// Attention on tensor cores, in bf16. A warp keeps 32 queries' results (16 keys' gradients) in its
// registers and passes over tiles of what they meet, which the next copies run beside. Scores and
// what is made of them never leave registers: the layout of an mma's results is that of its left
// factor. So the gradients of keys are computed from the transposes of the scores, by a kernel of
// their own, and all is summed in one order.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/mma.cuh"

namespace swarmpi::kernels::cuda {

namespace {

// =================================================================================================
// Kernels
// =================================================================================================

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kQueriesPerWarp = 32;  // two mma high: half the reads of the other factor
constexpr int kQueries = kWarps * kQueriesPerWarp;
constexpr int kKeysPerWarp = 16;  // where two sums of a head's width are kept for each
constexpr int kKeys = kWarps * kKeysPerWarp;
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

/// What there is to do, and which block does what. Those that meet the most tiles come first, so
/// that no long one is left for the end; but only so many heads are at work at a time as the cache
/// can hold.
struct Work {
  int context;
  int heads;
  int head_width;
  int items;       ///< heads of all sequences
  int group;       ///< of items, at work at a time
  float scale;     ///< of scores
  float exponent;  ///< of 2, that a score of 1 is

  __device__ std::int64_t first_row(int item) const {
    return static_cast<std::int64_t>(item / heads) * context;
  }
  __device__ int column(int part, int item) const {
    return (part * heads + item % heads) * head_width;
  }
};
struct Place {
  int item;
  int rank;  ///< of the block among those of the item

  __device__ Place(const Work& work, int block, int blocks_per_item) {
    const int first = block / (work.group * blocks_per_item) * work.group;
    const int rest = block - first * blocks_per_item;
    const int items = min(work.group, work.items - first);
    item = first + rest % items;
    rank = rest / items;
  }
};

/// Rows of bf16 in device memory.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ Rows of_head(const Work& work, int part, int item) const {
    return {data + work.first_row(item) * stride + work.column(part, item), stride};
  }
};
using ConstRows = Rows<const std::uint16_t>;
using MutableRows = Rows<std::uint16_t>;

/// Rows of kWidth bf16 in shared memory, in chunks of 8. The chunks of a row are permuted such that
/// the same chunk of 8 rows, which a matrix is read or written by, lies in all banks once.
template <int kWidth>
struct Tile {
  static constexpr int kChunks = kWidth / 8;
  static constexpr int kPatterns = std::gcd(kChunks, 8);
  static constexpr int kRowBytes = kWidth * 2;

  static __device__ int pattern(int row) { return row / (8 / kPatterns) % kPatterns; }
  static __device__ int offset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ pattern(row)) * 16;
  }
};

/// The address that a lane gives for matrices: its own row and chunk (0 or 1) of four of them, and
/// what is 8 rows or two chunks away. Left factors and transposed right ones go down first, right
/// factors and transposed left ones to the side.
template <int kWidth>
class LaneAddress {
 public:
  static __device__ LaneAddress down(std::uint32_t tile, int row, int lane) {
    return {tile, row + lane % 16, lane / 16};
  }
  static __device__ LaneAddress aside(std::uint32_t tile, int row, int lane) {
    return {tile, row + lane % 8 + lane / 16 * 8, lane / 8 % 2};
  }
  /// REQUIRES: `rows` is a multiple of 8, `chunk` of 2.
  __device__ std::uint32_t at(int rows, int chunk) const {
    // What a pattern permutes begins at a multiple of its size, so that only those bits change.
    constexpr int kPermuted = (Tile<kWidth>::kPatterns - 1) * 16;
    const int apart = chunk * 16;
    return (address_ ^ (apart & kPermuted)) + (apart & ~kPermuted) + rows * Tile<kWidth>::kRowBytes;
  }

 private:
  __device__ LaneAddress(std::uint32_t tile, int row, int chunk)
      : address_(tile + Tile<kWidth>::offset(row, chunk)) {}

  std::uint32_t address_;
};

/// Begins to copy rows [first, first + kRows) of a head to a tile; zeros beyond the context and the
/// head's width.
template <int kRows, int kWidth>
__device__ void copy_tile(std::uint32_t tile, const ConstRows& from, int first, const Work& work) {
  constexpr int kChunks = Tile<kWidth>::kChunks;
  constexpr int kRowsAtOnce = kThreads / kChunks / 8 * 8;  // patterns are the same 8 rows further
  static_assert(kRows % kRowsAtOnce == 0);
  const int row = static_cast<int>(threadIdx.x) / kChunks;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  if (kChunks * kRowsAtOnce < kThreads && row >= kRowsAtOnce) return;
  std::uint32_t to = tile + Tile<kWidth>::offset(row, chunk);
  const bool is_within = chunk * 8 < work.head_width;
  const std::uint16_t* place = from.data + (first + row) * from.stride + chunk * 8;
#pragma unroll
  for (int below = 0; below < kRows; below += kRowsAtOnce) {
    const bool there = is_within && first + row + below < work.context;
    copy_16_bytes(to, there ? place : from.data, there);
    to += kRowsAtOnce * Tile<kWidth>::kRowBytes;
    place += kRowsAtOnce * from.stride;
  }
}
/// Likewise, kKeys each of two kinds of numbers that there is one of for each row.
__device__ void copy_numbers(std::uint32_t to, const float* a, const float* b, int first,
                             const Work& work) {
  static_assert(kThreads == 2 * kKeys);
  const int i = static_cast<int>(threadIdx.x);
  const int row = first + i % kKeys;
  const float* const from = i < kKeys ? a : b;
  const bool there = row < work.context;
  copy_4_bytes(to + i * 4, there ? from + row : from, there);
}

/// Puts 16 rows of results, times a factor for rows g and one for rows g + 8, into a tile.
template <int kWidth>
__device__ void put_rows(unsigned char* tile, int row, const float (&results)[kWidth / 8][4],
                         float factor, float factor_below, int lane) {
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
    const float(&r)[4] = results[n];
    *reinterpret_cast<std::uint32_t*>(tile + Tile<kWidth>::offset(row + g, n) + t * 4) =
        bf16_pair(flushed_product(r[0], factor), flushed_product(r[1], factor));
    *reinterpret_cast<std::uint32_t*>(tile + Tile<kWidth>::offset(row + g + 8, n) + t * 4) =
        bf16_pair(flushed_product(r[2], factor_below), flushed_product(r[3], factor_below));
  }
}
/// A warp takes kRows rows of a tile, from `row` on, to where they belong: row `first` of a head.
template <int kRows, int kWidth>
__device__ void store_rows(const MutableRows& to, int first, const unsigned char* tile, int row,
                           const Work& work, int lane) {
  constexpr int kChunks = Tile<kWidth>::kChunks;
#pragma unroll
  for (int begin = 0; begin < kRows * kChunks; begin += 32) {
    const int r = (begin + lane) / kChunks;
    const int chunk = (begin + lane) % kChunks;
    if (first + r >= work.context || chunk * 8 >= work.head_width) continue;
    *reinterpret_cast<uint4*>(to.data + (first + r) * to.stride + chunk * 8) =
        *reinterpret_cast<const uint4*>(tile + Tile<kWidth>::offset(row + r, chunk));
  }
}

/// The left factor of 16 columns that two neighbours among results are.
__device__ void take_left(std::uint32_t (&left)[4], const float (&a)[4], const float (&b)[4]) {
  left[0] = bf16_pair(a[0], a[1]);
  left[1] = bf16_pair(a[2], a[3]);
  left[2] = bf16_pair(b[0], b[1]);
  left[3] = bf16_pair(b[2], b[3]);
}

/// sums (16 kHigh rows, 8 kTiles columns) += left right^T: rows of both are kWidth wide.
template <int kWidth, int kHigh, int kTiles>
__device__ void multiply_rows(float (&sums)[kHigh][kTiles][4], const LaneAddress<kWidth>& left,
                              const LaneAddress<kWidth>& right) {
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    std::uint32_t a[kHigh][4];
#pragma unroll
    for (int m = 0; m < kHigh; ++m) load_matrices(a[m], left.at(16 * m, 2 * k));
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      std::uint32_t b[4];
      load_matrices(b, right.at(16 * n, 2 * k));
#pragma unroll
      for (int m = 0; m < kHigh; ++m) {
        multiply_add(sums[m][2 * n], a[m], b[0], b[1]);
        multiply_add(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}
/// sums (16 kHigh rows, kWidth columns) += left right, where left (16 kHigh rows, 8 kTiles columns)
/// is rounded.
template <int kWidth, int kHigh, int kTiles>
__device__ void multiply_results(float (&sums)[kHigh][kWidth / 8][4],
                                 const float (&left)[kHigh][kTiles][4],
                                 const LaneAddress<kWidth>& right) {
#pragma unroll
  for (int k = 0; k < kTiles / 2; ++k) {
    std::uint32_t a[kHigh][4];
#pragma unroll
    for (int m = 0; m < kHigh; ++m) take_left(a[m], left[m][2 * k], left[m][2 * k + 1]);
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      std::uint32_t b[4];
      load_transposed(b, right.at(16 * k, 2 * n));
#pragma unroll
      for (int m = 0; m < kHigh; ++m) {
        multiply_add(sums[m][2 * n], a[m], b[0], b[1]);
        multiply_add(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// Softmax of 32 queries while keys come tile by tile. A lane has 4 rows: g and g + 8 of each mma.
/// Exponentials are relative to a shift that lies at most 2^kSlack below the largest, so that it
/// (and what was summed) is changed seldom.
struct RunningSoftmax {
  static constexpr float kSlack = 8;
  float shift[4];  ///< in powers of 2
  float sum[4];    ///< of this lane's columns

  __device__ RunningSoftmax() {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      shift[r] = -INFINITY;
      sum[r] = 0;
    }
  }

  /// Turns scores into exponentials of `factor` times them.
  template <int kTiles, int kSums>
  __device__ void add(float (&scores)[2][kTiles][4], float (&results)[2][kSums][4], float factor) {
    float largest[4];
    bool over = false;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const auto& row = scores[r / 2];
      const int c = r % 2 * 2;
      float most = fmaxf(row[0][c], row[0][c + 1]);
#pragma unroll
      for (int n = 1; n < kTiles; ++n) most = fmaxf(most, fmaxf(row[n][c], row[n][c + 1]));
      largest[r] = quad_max(most) * factor;
      over |= largest[r] > shift[r] + kSlack;
    }
    if (__any_sync(0xffffffffu, over)) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float changed = fmaxf(shift[r], largest[r]);
        const float rescale = fast_exp2(shift[r] - changed);  // 0 the first time
        shift[r] = changed;
        sum[r] *= rescale;
#pragma unroll
        for (int n = 0; n < kSums; ++n) {
          results[r / 2][n][r % 2 * 2] *= rescale;
          results[r / 2][n][r % 2 * 2 + 1] *= rescale;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      auto& row = scores[r / 2];
      const int c = r % 2 * 2;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        row[n][c] = fast_exp2(fmaf(row[n][c], factor, -shift[r]));
        row[n][c + 1] = fast_exp2(fmaf(row[n][c + 1], factor, -shift[r]));
        sum[r] += row[n][c] + row[n][c + 1];
      }
    }
  }
};

/// What of shared memory the kernels of kWidth take.
template <int kWidth>
struct Room {
  static constexpr int kRowBytes = Tile<kWidth>::kRowBytes;
  static constexpr int kQueryTile = kQueries * kRowBytes;
  static constexpr int kKeyTile = kKeys * kRowBytes;
  // Where queries' gradients are wide, fewer keys at a time leave registers for them.
  static constexpr int kKeysOfQueries = kWidth > 16 ? 32 : 64;
  static constexpr int kNumbers = kKeys * static_cast<int>(sizeof(float));

  static constexpr int kForwardStage = 2 * kKeyTile;
  static constexpr int kForward = kQueryTile + 2 * kForwardStage;
  static constexpr int kOfKeysStage = 2 * kKeyTile + 2 * kNumbers;
  static constexpr int kOfKeys = 2 * kKeyTile + 2 * kOfKeysStage;
  static constexpr int kOfQueriesStage = 2 * kKeysOfQueries * kRowBytes;
  static constexpr int kOfQueries = 2 * kQueryTile + 2 * kOfQueriesStage;

  static constexpr int kBlocks = kWidth > 64 ? 2 : 3;  ///< that a processor can hold
};

extern __shared__ __align__(1024) unsigned char shared_memory[];

struct Forward {
  Work work;
  MutableRows out;
  float* log_sum;
  ConstRows qkv;
};

/// 128 queries against all keys up to them, from the last tile on.
template <int kWidth>
__global__ void __launch_bounds__(kThreads, Room<kWidth>::kBlocks)
    forward_kernel(const Forward f, int blocks_per_item) {
  using R = Room<kWidth>;
  const Place place(f.work, static_cast<int>(blockIdx.x), blocks_per_item);
  const int first = (blocks_per_item - 1 - place.rank) * kQueries;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kQueriesPerWarp;
  const int warp_first = first + warp_row;
  const ConstRows keys = f.qkv.of_head(f.work, 1, place.item);
  const ConstRows values = f.qkv.of_head(f.work, 2, place.item);
  const std::uint32_t query_tile = shared_address(shared_memory);
  const std::uint32_t stages = query_tile + R::kQueryTile;
  const auto begin_copies = [&](int tile) {
    const std::uint32_t stage = stages + tile % 2 * R::kForwardStage;
    copy_tile<kKeys, kWidth>(stage, keys, tile * kKeys, f.work);
    copy_tile<kKeys, kWidth>(stage + R::kKeyTile, values, tile * kKeys, f.work);
  };

  int tile = (min(first + kQueries, f.work.context) - 1) / kKeys;
  copy_tile<kQueries, kWidth>(query_tile, f.qkv.of_head(f.work, 0, place.item), first, f.work);
  begin_copies(tile);

  const auto query_rows = LaneAddress<kWidth>::down(query_tile, warp_row, lane);
  float results[2][kWidth / 8][4] = {};
  RunningSoftmax softmax;
  for (; tile >= 0; --tile) {
    wait_for_copies();
    __syncthreads();  // this tile is there, and the other stage is no longer read
    if (tile > 0) begin_copies(tile - 1);
    if (tile * kKeys > warp_first) continue;  // no query of this warp sees any of it
    const std::uint32_t stage = stages + tile % 2 * R::kForwardStage;

    float scores[2][kKeys / 8][4] = {};
    multiply_rows<kWidth>(scores, query_rows, LaneAddress<kWidth>::aside(stage, 0, lane));
    if (tile * kKeys + kKeys - 1 > warp_first) {
      // Of the keys from this lane's first on, its first query sees so many.
      const int seen = warp_first + lane / 4 - tile * kKeys - lane % 4 * 2 + 1;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            if (8 * n + c % 2 >= seen + 16 * m + c / 2 * 8) scores[m][n][c] = -INFINITY;
          }
        }
      }
    }
    softmax.add(scores, results, f.work.exponent);
    multiply_results<kWidth>(results, scores,
                             LaneAddress<kWidth>::down(stage + R::kKeyTile, 0, lane));
  }

  // The warp's queries are no longer needed, so that its results have room there.
  float* const log_sum = f.log_sum + static_cast<std::int64_t>(place.item) * f.work.context;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = quad_sum(softmax.sum[2 * m + half]);
      const int query = warp_first + 16 * m + 8 * half + lane / 4;
      inverse[half] = 1.0f / sum;
      if (lane % 4 == 0 && query < f.work.context) {
        log_sum[query] = fmaf(softmax.shift[2 * m + half], kLn2, logf(sum));
      }
    }
    put_rows<kWidth>(shared_memory, warp_row + 16 * m, results[m], inverse[0], inverse[1], lane);
  }
  __syncwarp();
  store_rows<kQueriesPerWarp, kWidth>(f.out.of_head(f.work, 0, place.item), warp_first,
                                      shared_memory, warp_row, f.work, lane);
}

struct Backward {
  Work work;
  MutableRows dqkv;
  ConstRows dout, qkv, out;
  const float* log_sum;
  float* delta;
};

/// 16 threads for each row of each head.
__global__ void __launch_bounds__(256) delta_kernel(const Backward b) {
  const std::int64_t pair = (static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x) / 16;
  const int chunk = static_cast<int>(threadIdx.x) % 16;
  const std::int64_t row = pair / b.work.heads;
  const int head = static_cast<int>(pair % b.work.heads);
  const bool is_row = pair < static_cast<std::int64_t>(b.work.items) * b.work.context;
  float sum = 0;
  if (is_row && chunk * 8 < b.work.head_width) {
    const std::int64_t column = static_cast<std::int64_t>(head) * b.work.head_width + chunk * 8;
    const uint4 x = *reinterpret_cast<const uint4*>(b.dout.data + row * b.dout.stride + column);
    const uint4 y = *reinterpret_cast<const uint4*>(b.out.data + row * b.out.stride + column);
    const auto add = [&](std::uint32_t p, std::uint32_t q) {
      sum = fmaf(__uint_as_float(p << 16), __uint_as_float(q << 16), sum);
      sum = fmaf(__uint_as_float(p & 0xffff0000u), __uint_as_float(q & 0xffff0000u), sum);
    };
    add(x.x, y.x);
    add(x.y, y.y);
    add(x.z, y.z);
    add(x.w, y.w);
  }
#pragma unroll
  for (int apart = 8; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  if (!is_row || chunk != 0) return;
  const std::int64_t sequence = row / b.work.context;
  const std::int64_t item = sequence * b.work.heads + head;
  b.delta[item * b.work.context + (row - sequence * b.work.context)] = sum;
}

/// The gradients of 64 keys and values: all queries from them on, 64 at a time. Here keys are rows
/// of the scores.
template <int kWidth>
__global__ void __launch_bounds__(kThreads, Room<kWidth>::kBlocks)
    keys_kernel(const Backward b, int blocks_per_item) {
  using R = Room<kWidth>;
  const Place place(b.work, static_cast<int>(blockIdx.x), blocks_per_item);
  const int first = place.rank * kKeys;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kKeysPerWarp;
  const ConstRows queries = b.qkv.of_head(b.work, 0, place.item);
  const ConstRows dout = b.dout.of_head(b.work, 0, place.item);
  const float* const log_sum = b.log_sum + static_cast<std::int64_t>(place.item) * b.work.context;
  const float* const delta = b.delta + static_cast<std::int64_t>(place.item) * b.work.context;
  const std::uint32_t key_tile = shared_address(shared_memory);
  const std::uint32_t value_tile = key_tile + R::kKeyTile;
  const auto stage_of = [](int tile) { return 2 * R::kKeyTile + tile % 2 * R::kOfKeysStage; };
  const auto begin_copies = [&](int tile) {
    const std::uint32_t stage = key_tile + stage_of(tile);
    const int query = tile * kKeys;
    copy_tile<kKeys, kWidth>(stage, queries, query, b.work);
    copy_tile<kKeys, kWidth>(stage + R::kKeyTile, dout, query, b.work);
    copy_numbers(stage + 2 * R::kKeyTile, log_sum, delta, query, b.work);
  };

  int tile = place.rank;
  copy_tile<kKeys, kWidth>(key_tile, b.qkv.of_head(b.work, 1, place.item), first, b.work);
  copy_tile<kKeys, kWidth>(value_tile, b.qkv.of_head(b.work, 2, place.item), first, b.work);
  begin_copies(tile);
  const auto key_rows = LaneAddress<kWidth>::down(key_tile, warp_row, lane);
  const auto value_rows = LaneAddress<kWidth>::down(value_tile, warp_row, lane);

  float dkeys[1][kWidth / 8][4] = {};
  float dvalues[1][kWidth / 8][4] = {};
  for (; tile * kKeys < b.work.context; ++tile) {
    wait_for_copies();
    __syncthreads();  // this tile is there, and the other stage is no longer read
    if ((tile + 1) * kKeys < b.work.context) begin_copies(tile + 1);
    const std::uint32_t stage = key_tile + stage_of(tile);
    const std::uint32_t dout_tile = stage + R::kKeyTile;
    const float* const numbers =
        reinterpret_cast<const float*>(shared_memory + stage_of(tile) + 2 * R::kKeyTile) +
        lane % 4 * 2;  // of the lane's first two queries

    float p[1][kKeys / 8][4] = {};
    multiply_rows<kWidth>(p, key_rows, LaneAddress<kWidth>::aside(stage, 0, lane));
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const float2 log_sums = *reinterpret_cast<const float2*>(numbers + 8 * n);
      const float shift[2] = {log_sums.x * kLog2E, log_sums.y * kLog2E};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        p[0][n][c] = fast_exp2(fmaf(p[0][n][c], b.work.exponent, -shift[c % 2]));
      }
    }
    if (tile == place.rank) {
      // Of the queries from this lane's first on, so many do not see its first key.
      const int blind = warp_row + lane / 4 - lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (8 * n + c % 2 < blind + c / 2 * 8) p[0][n][c] = 0;
        }
      }
    }
    float ds[1][kKeys / 8][4] = {};
    multiply_rows<kWidth>(ds, value_rows, LaneAddress<kWidth>::aside(dout_tile, 0, lane));
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const float2 along = *reinterpret_cast<const float2*>(numbers + kKeys + 8 * n);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        ds[0][n][c] = flushed_product(p[0][n][c], ds[0][n][c] - (c % 2 == 0 ? along.x : along.y));
      }
    }
    multiply_results<kWidth>(dvalues, p, LaneAddress<kWidth>::down(dout_tile, 0, lane));
    multiply_results<kWidth>(dkeys, ds, LaneAddress<kWidth>::down(stage, 0, lane));
  }

  // The warp's keys and values are no longer needed, so that their gradients have room there.
  unsigned char* const values_room = shared_memory + R::kKeyTile;
  put_rows<kWidth>(shared_memory, warp_row, dkeys[0], b.work.scale, b.work.scale, lane);
  put_rows<kWidth>(values_room, warp_row, dvalues[0], 1, 1, lane);
  __syncwarp();
  store_rows<kKeysPerWarp, kWidth>(b.dqkv.of_head(b.work, 1, place.item), first + warp_row,
                                   shared_memory, warp_row, b.work, lane);
  store_rows<kKeysPerWarp, kWidth>(b.dqkv.of_head(b.work, 2, place.item), first + warp_row,
                                   values_room, warp_row, b.work, lane);
}

/// The gradients of 128 queries: all keys up to them, from the last tile on.
template <int kWidth>
__global__ void __launch_bounds__(kThreads, Room<kWidth>::kBlocks)
    queries_kernel(const Backward b, int blocks_per_item) {
  using R = Room<kWidth>;
  constexpr int kTileKeys = R::kKeysOfQueries;
  const Place place(b.work, static_cast<int>(blockIdx.x), blocks_per_item);
  const int first = (blocks_per_item - 1 - place.rank) * kQueries;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kQueriesPerWarp;
  const int warp_first = first + warp_row;
  const ConstRows keys = b.qkv.of_head(b.work, 1, place.item);
  const ConstRows values = b.qkv.of_head(b.work, 2, place.item);
  const std::uint32_t query_tile = shared_address(shared_memory);
  const std::uint32_t dout_tile = query_tile + R::kQueryTile;
  const std::uint32_t stages = dout_tile + R::kQueryTile;
  constexpr int kTileBytes = kTileKeys * R::kRowBytes;
  const auto begin_copies = [&](int tile) {
    const std::uint32_t stage = stages + tile % 2 * R::kOfQueriesStage;
    copy_tile<kTileKeys, kWidth>(stage, keys, tile * kTileKeys, b.work);
    copy_tile<kTileKeys, kWidth>(stage + kTileBytes, values, tile * kTileKeys, b.work);
  };

  int tile = (min(first + kQueries, b.work.context) - 1) / kTileKeys;
  copy_tile<kQueries, kWidth>(query_tile, b.qkv.of_head(b.work, 0, place.item), first, b.work);
  copy_tile<kQueries, kWidth>(dout_tile, b.dout.of_head(b.work, 0, place.item), first, b.work);
  begin_copies(tile);
  const auto query_rows = LaneAddress<kWidth>::down(query_tile, warp_row, lane);
  const auto dout_rows = LaneAddress<kWidth>::down(dout_tile, warp_row, lane);

  float shift[4], along[4];  // of rows g and g + 8 of each mma
  const std::int64_t first_number = static_cast<std::int64_t>(place.item) * b.work.context;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int query = min(warp_first + 8 * r + lane / 4, b.work.context - 1);
    shift[r] = b.log_sum[first_number + query] * kLog2E;
    along[r] = b.delta[first_number + query];
  }
  float dqueries[2][kWidth / 8][4] = {};
  for (; tile >= 0; --tile) {
    wait_for_copies();
    __syncthreads();  // this tile is there, and the other stage is no longer read
    if (tile > 0) begin_copies(tile - 1);
    if (tile * kTileKeys > warp_first) continue;  // no query of this warp sees any of it
    const std::uint32_t stage = stages + tile % 2 * R::kOfQueriesStage;

    float p[2][kTileKeys / 8][4] = {};
    multiply_rows<kWidth>(p, query_rows, LaneAddress<kWidth>::aside(stage, 0, lane));
    float ds[2][kTileKeys / 8][4] = {};
    multiply_rows<kWidth>(ds, dout_rows, LaneAddress<kWidth>::aside(stage + kTileBytes, 0, lane));
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int r = 2 * m + c / 2;
          const float probability = fast_exp2(fmaf(p[m][n][c], b.work.exponent, -shift[r]));
          ds[m][n][c] = flushed_product(probability, ds[m][n][c] - along[r]);
        }
      }
    }
    if (tile * kTileKeys + kTileKeys - 1 > warp_first) {
      // Of the keys from this lane's first on, its first query sees so many.
      const int seen = warp_first + lane / 4 - tile * kTileKeys - lane % 4 * 2 + 1;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            if (8 * n + c % 2 >= seen + 16 * m + c / 2 * 8) ds[m][n][c] = 0;
          }
        }
      }
    }
    multiply_results<kWidth>(dqueries, ds, LaneAddress<kWidth>::down(stage, 0, lane));
  }

  // The warp's queries are no longer needed, so that their gradients have room there.
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    put_rows<kWidth>(shared_memory, warp_row + 16 * m, dqueries[m], b.work.scale, b.work.scale,
                     lane);
  }
  __syncwarp();
  store_rows<kQueriesPerWarp, kWidth>(b.dqkv.of_head(b.work, 0, place.item), warp_first,
                                      shared_memory, warp_row, b.work, lane);
}

// =================================================================================================
// Launchers
// =================================================================================================

/// Whether rows of heads can be copied in chunks of 16 bytes.
template <class Void>
bool has_chunks(const FactorView<Void>& m) {
  return m.element == Element::bf16 && m.stride % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0;
}
bool fits_tensor_cores(const AttentionShape& s) {
  return s.head_width % 8 == 0 && s.head_width <= 128;
}

Work work_of(const AttentionShape& s) {
  // Keys and values, or what else all blocks of a head read, of so many heads stay in the cache.
  constexpr std::int64_t kCacheBytes = 16 << 20;
  const std::int64_t items = s.sequences * s.heads;
  const std::int64_t group =
      std::min(items, std::max<std::int64_t>(kCacheBytes / (s.context * s.head_width * 4), 1));
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  return {static_cast<int>(s.context),
          static_cast<int>(s.heads),
          static_cast<int>(s.head_width),
          static_cast<int>(items),
          static_cast<int>(group),
          scale,
          scale * kLog2E};
}

MutableRows rows_of(const FactorMatrix& m) {
  return {static_cast<std::uint16_t*>(m.data), m.stride};
}
ConstRows rows_of(const ConstFactor& m) {
  return {static_cast<const std::uint16_t*>(m.data), m.stride};
}

/// Calls body(width) with the head's width as the kernels know it: padded, an integral constant.
template <class Body>
void with_width(std::int64_t head_width, const Body& body) {
  if (head_width <= 16) return body(std::integral_constant<int, 16>());
  if (head_width <= 32) return body(std::integral_constant<int, 32>());
  if (head_width <= 64) return body(std::integral_constant<int, 64>());
  if (head_width <= 96) return body(std::integral_constant<int, 96>());
  body(std::integral_constant<int, 128>());
}

/// One block for each `rows` rows of each head.
template <class Problem>
void launch(void (*kernel)(Problem, int), const Problem& problem, int rows, int room_bytes,
            cudaStream_t stream) {
  const int blocks_per_item = (problem.work.context + rows - 1) / rows;
  const auto blocks =
      static_cast<unsigned>(problem.work.items) * static_cast<unsigned>(blocks_per_item);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room_bytes);
  kernel<<<blocks, kThreads, room_bytes, stream>>>(problem, blocks_per_item);
}

}  // namespace

std::size_t attention_scratch_bytes(const AttentionShape& s) {
  return static_cast<std::size_t>(s.sequences * s.heads * s.context) * sizeof(float);
}

void attention_forward(FactorMatrix out, float* log_sum, ConstFactor qkv, const AttentionShape& s,
                       cudaStream_t stream) {
  if (!fits_tensor_cores(s) || !has_chunks(qkv) || !has_chunks(out)) {
    return plain_attention_forward(out, log_sum, qkv, s, stream);
  }
  const Forward problem{work_of(s), rows_of(out), log_sum, rows_of(qkv)};
  with_width(s.head_width, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch(forward_kernel<kWidth>, problem, kQueries, Room<kWidth>::kForward, stream);
  });
}

void attention_backward(FactorMatrix dqkv, ConstFactor dout, ConstFactor qkv, ConstFactor out,
                        const float* log_sum, float* delta, const AttentionShape& s,
                        cudaStream_t stream) {
  if (!fits_tensor_cores(s) || !has_chunks(dqkv) || !has_chunks(dout) || !has_chunks(qkv) ||
      !has_chunks(out)) {
    return plain_attention_backward(dqkv, dout, qkv, out, log_sum, delta, s, stream);
  }
  const Backward problem{work_of(s),   rows_of(dqkv), rows_of(dout), rows_of(qkv),
                         rows_of(out), log_sum,       delta};
  const std::int64_t pairs = s.sequences * s.context * s.heads;
  delta_kernel<<<static_cast<unsigned>((pairs + 15) / 16), 256, 0, stream>>>(problem);
  with_width(s.head_width, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    launch(keys_kernel<kWidth>, problem, kKeys, Room<kWidth>::kOfKeys, stream);
    launch(queries_kernel<kWidth>, problem, kQueries, Room<kWidth>::kOfQueries, stream);
  });
}

}  // namespace swarmpi::kernels::cuda
