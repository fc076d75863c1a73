#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/block_sum.hpp"
#include "kernels/cuda/order_free_sums.hpp"
#include "kernels/fixed_point_element.hpp"

namespace swarmpi::kernels::cuda {

namespace {

constexpr int kThreads = 256;
/// Elements of one thread: as many as are on their way from memory at once.
constexpr int kMeasuredAtOnce = 16;
constexpr int kAddedAtOnce = 8;
/// Thread blocks that go on from tile to tile: eight for each of an H100's multiprocessors. More
/// would do nothing but wait for the one word that all of them merge into.
constexpr std::int64_t kMeasuringBlocks = 8 * 132;

/// A matrix as the kernels walk through it: rows cut into tiles, of which one block of threads
/// takes one at a time. A dense matrix is one row.
struct Tiles {
  std::int64_t rows, columns, stride;
  std::int64_t size;  ///< elements of a tile
  std::int64_t in_row;

  std::int64_t count() const { return rows * in_row; }
};

//--------------------------------------------------------------------------------------------------
// Kernels

/// Neighbours that are loaded and stored together: one element, or four, 16 bytes at a time.
template <class T, int kWidth>
struct Pack {
  T at[kWidth];
};
template <class T>
struct Words {
  uint4 at[sizeof(T) / sizeof(uint4)];
};

template <class T>
__device__ void load(Pack<T, 1>& pack, const T* from) {
  pack.at[0] = *from;
}
template <class T>
__device__ void load(Pack<T, 4>& pack, const T* from) {
  Words<Pack<T, 4>> words;
#pragma unroll
  for (int i = 0; i < sizeof words / sizeof(uint4); ++i) {
    words.at[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  pack = std::bit_cast<Pack<T, 4>>(words);
}

template <class T>
__device__ void store(T* to, const Pack<T, 1>& pack) {
  *to = pack.at[0];
}
template <class T>
__device__ void store(T* to, const Pack<T, 4>& pack) {
  const auto words = std::bit_cast<Words<Pack<T, 4>>>(pack);
#pragma unroll
  for (int i = 0; i < sizeof words / sizeof(uint4); ++i) {
    reinterpret_cast<uint4*>(to)[i] = words.at[i];
  }
}

/// What one thread has of a tile: packs, each as far behind the one before as there are threads.
template <class T, int kWidth, int kPacks>
struct Share {
  Pack<T, kWidth> packs[kPacks];
};
template <int kWidth>
constexpr int offset_of(int pack) {
  return pack * kThreads * kWidth;
}

/// `left` elements follow `from`; zeros behind them. A whole tile needs no more than one question.
template <class T, int kWidth, int kPacks>
__device__ void load_share(Share<T, kWidth, kPacks>& share, const T* from, std::int64_t left,
                           bool is_whole) {
  if (is_whole) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) load(share.packs[k], from + offset_of<kWidth>(k));
    return;
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int at = offset_of<kWidth>(k);
    if (at + kWidth <= left) {
      load(share.packs[k], from + at);
      continue;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) share.packs[k].at[i] = at + i < left ? from[at + i] : T{};
  }
}

template <class T, int kWidth, int kPacks>
__device__ void store_share(T* to, const Share<T, kWidth, kPacks>& share, std::int64_t left,
                            bool is_whole) {
  if (is_whole) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) store(to + offset_of<kWidth>(k), share.packs[k]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int at = offset_of<kWidth>(k);
    if (at + kWidth <= left) {
      store(to + at, share.packs[k]);
      continue;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (at + i < left) to[at + i] = share.packs[k].at[i];
    }
  }
}

/// Calls body(row, column, whole) for this block's tiles: `column` is where this thread's share
/// begins, `whole` tells whether the row fills the tile.
template <int kWidth, class Body>
__device__ void for_each_tile(const Tiles& tiles, const Body& body) {
  const std::int64_t count = tiles.rows * tiles.in_row;
  for (std::int64_t tile = blockIdx.x; tile < count; tile += gridDim.x) {
    const std::int64_t row = tiles.rows == 1 ? 0 : tile / tiles.in_row;
    const std::int64_t first = (tile - row * tiles.in_row) * tiles.size;
    body(row, first + kWidth * static_cast<int>(threadIdx.x), first + tiles.size <= tiles.columns);
  }
}

/// A maximum of integers: the order in which blocks come does not matter.
__device__ void merge_largest(std::uint32_t* magnitude, std::uint32_t largest) {
  __shared__ std::uint32_t of_block;
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x % warpSize == 0) atomicMax(&of_block, largest);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(magnitude, of_block);
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    measure_tiles(std::uint32_t* magnitude, const float* gradient, Tiles tiles) {
  std::uint32_t largest = 0;
  for_each_tile<kWidth>(tiles, [&](std::int64_t row, std::int64_t column, bool is_whole) {
    Share<float, kWidth, kMeasuredAtOnce / kWidth> values;
    load_share(values, gradient + row * tiles.stride + column, tiles.columns - column, is_whole);
#pragma unroll
    for (const auto& pack : values.packs) {
#pragma unroll
      for (const float value : pack.at) largest = max(largest, magnitude_bits(value));
    }
  });
  merge_largest(magnitude, largest);
}

/// Whether a gradient that large changes no sum.
__device__ bool adds_nothing(std::uint32_t magnitude, std::int16_t exponent) {
  return magnitude == 0 || measured(magnitude, exponent).flagged();
}

/// `rows`: those of the sums; null: the same. A gradient that adds nothing is not read either.
template <int kWidth, Write kWrite>
__global__ void __launch_bounds__(kThreads)
    add_tiles(std::int64_t* sums, const float* gradient, Tiles tiles, const std::int32_t* rows,
              const std::uint32_t* magnitude, std::int16_t exponent, double per_quantum) {
  constexpr int kPacks = kAddedAtOnce / kWidth;
  const bool is_zero = adds_nothing(*magnitude, exponent);
  if (is_zero && kWrite == Write::add) return;
  for_each_tile<kWidth>(tiles, [&](std::int64_t row, std::int64_t column, bool is_whole) {
    const float* const from = gradient + row * tiles.stride + column;
    std::int64_t* const to = sums + (rows == nullptr ? row : rows[row]) * tiles.columns + column;
    const std::int64_t left = tiles.columns - column;
    Share<float, kWidth, kPacks> values = {};
    Share<std::int64_t, kWidth, kPacks> totals = {};
    if constexpr (kWrite == Write::add) load_share(totals, to, left, is_whole);
    if (!is_zero) load_share(values, from, left, is_whole);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        totals.packs[k].at[i] += to_fixed_point(values.packs[k].at[i], per_quantum);
      }
    }
    store_share(to, totals, left, is_whole);
  });
}

/// sum_lanes() of the squares of a block of values, by 16 threads side by side.
__device__ double lane_sum_of_squares(const float* values, int count) {
  const int lane = static_cast<int>(threadIdx.x % kSumLanes);
  double sum = 0;
#pragma unroll 8
  for (int i = lane; i < count; i += kSumLanes) sum += exact_square(values[i]);
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    sum += __shfl_down_sync(0xffffu, sum, half, kSumLanes);
  }
  return sum;
}

/// One block of threads for each block of a sum: all round, 16 of them add up the squares.
__global__ void __launch_bounds__(kThreads)
    round_blocks(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                 double quantum_per_token) {
  __shared__ float rounded[kSumBlock];
  const std::int64_t first = blockIdx.x * kSumBlock;
  const int size = static_cast<int>(count - first < kSumBlock ? count - first : kSumBlock);
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads) {
    rounded[i] = rounded_mean(sums[first + i], quantum_per_token);
  }
  __syncthreads();
  if (gradient != nullptr) {
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads) {
      gradient[first + i] = rounded[i];
    }
  }
  if (threadIdx.x >= kSumLanes) return;
  const double sum = lane_sum_of_squares(rounded, size);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

//--------------------------------------------------------------------------------------------------
// Launchers

/// `at_once`: elements of a thread.
Tiles tiles_of(ConstMatrix m, int at_once, bool may_join_rows) {
  const bool is_dense = m.rows == 1 || m.stride == m.columns;
  Tiles tiles{m.rows, m.columns, m.stride, kThreads * at_once, 0};
  if (is_dense && may_join_rows) tiles = {1, m.rows * m.columns, 0, tiles.size, 0};
  tiles.in_row = (tiles.columns + tiles.size - 1) / tiles.size;
  return tiles;
}

bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

/// Whether every row begins where 16 bytes can be loaded.
bool has_wide_rows(const float* data, const Tiles& tiles) {
  return is_aligned(data) && (tiles.rows == 1 || tiles.stride % 4 == 0);
}

template <Write kWrite>
void launch_add(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                const std::uint32_t* magnitude, std::int16_t exponent, int bits,
                cudaStream_t stream) {
  const Tiles tiles = tiles_of(gradient, kAddedAtOnce, rows == nullptr);
  if (tiles.count() == 0) return;
  const double per_quantum = power_of_two(-quantum_exponent(exponent, bits));
  const bool sums_are_wide =
      is_aligned(sums) && ((tiles.rows == 1 && rows == nullptr) || tiles.columns % 4 == 0);
  const bool is_wide = sums_are_wide && has_wide_rows(gradient.data, tiles);
  const auto kernel = is_wide ? add_tiles<4, kWrite> : add_tiles<1, kWrite>;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles.count(), INT32_MAX));
  kernel<<<blocks, kThreads, 0, stream>>>(sums, gradient.data, tiles, rows, magnitude, exponent,
                                          per_quantum);
}

}  // namespace

void measure(std::uint32_t* magnitude, ConstMatrix gradient, cudaStream_t stream) {
  cudaMemsetAsync(magnitude, 0, sizeof *magnitude, stream);
  const Tiles tiles = tiles_of(gradient, kMeasuredAtOnce, true);
  if (tiles.count() == 0) return;
  const auto kernel = has_wide_rows(gradient.data, tiles) ? measure_tiles<4> : measure_tiles<1>;
  const auto blocks = static_cast<unsigned>(std::min(tiles.count(), kMeasuringBlocks));
  kernel<<<blocks, kThreads, 0, stream>>>(magnitude, gradient.data, tiles);
}

void add_measured(std::int64_t* sums, Write write, ConstMatrix gradient,
                  const std::uint32_t* magnitude, std::int16_t exponent, int bits,
                  cudaStream_t stream) {
  const auto launch = write == Write::set ? launch_add<Write::set> : launch_add<Write::add>;
  launch(sums, gradient, nullptr, magnitude, exponent, bits, stream);
}

void add_measured_rows(std::int64_t* sums, ConstMatrix gradient, const std::int32_t* rows,
                       const std::uint32_t* magnitude, std::int16_t exponent, int bits,
                       cudaStream_t stream) {
  launch_add<Write::add>(sums, gradient, rows, magnitude, exponent, bits, stream);
}

void round_sums(float* gradient, double* squares, const std::int64_t* sums, std::int64_t count,
                double quantum_per_token, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((count + kSumBlock - 1) / kSumBlock);
  if (blocks == 0) return;
  round_blocks<<<blocks, kThreads, 0, stream>>>(gradient, squares, sums, count, quantum_per_token);
}

}  // namespace swarmpi::kernels::cuda
