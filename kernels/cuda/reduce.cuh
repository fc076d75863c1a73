#pragma once
// What several kernels share: neighbouring columns that are loaded and stored together, a loop over
// the elements of a matrix, and sums over warps, thread blocks and blocks of rows. All orders of
// additions depend on shapes alone, never on the device or on alignment.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/backend.hpp"
#include "kernels/bfloat16.hpp"

namespace swarmpi::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMaxWarps = 32;  ///< of a thread block
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Rows as kernels take them. T: float, or std::uint16_t for bf16; const where they are only read.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ T* row(std::int64_t r) const { return data + r * stride; }
};

//--------------------------------------------------------------------------------------------------
// Packs

/// Neighbouring columns of one row, as fp32.
template <int kWidth>
struct Pack {
  float at[kWidth];
};

/// bf16_from_float() of two numbers, that of `low` in the lower half.
__device__ inline std::uint32_t bf16_pair(float low, float high) {
  return bf16_from_float(low) | static_cast<std::uint32_t>(bf16_from_float(high)) << 16;
}

/// The same if neither is a NaN, by the processor's conversion, which makes all NaNs one. It keeps
/// denormals, so they are flushed before.
__device__ inline std::uint32_t bf16_pair_of_numbers(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t pair;
  asm("mul.rn.ftz.f32 %0, %0, 0f3F800000;" : "+f"(low));
  asm("mul.rn.ftz.f32 %0, %0, 0f3F800000;" : "+f"(high));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return bf16_pair(low, high);
#endif
}

__device__ inline float loaded(float x) { return x; }
__device__ inline float loaded(std::uint16_t bits) { return float_from_bf16(bits); }
__device__ inline void store_one(float* to, float x) { *to = x; }
__device__ inline void store_one(std::uint16_t* to, float x) { *to = bf16_from_float(x); }

// Whole packs, 8 or 16 bytes at a time.
__device__ inline void load_whole(Pack<4>& pack, const float* from) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  pack = {x.x, x.y, x.z, x.w};
}
__device__ inline void load_whole(Pack<8>& pack, const std::uint16_t* from) {
  const uint4 x = *reinterpret_cast<const uint4*>(from);
  const std::uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pack.at[2 * i] = __uint_as_float(pairs[i] << 16);
    pack.at[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
  }
}
__device__ inline void store_whole(float* to, const Pack<4>& pack) {
#ifdef __CUDA_ARCH__
  // Of an assignment, the compiler makes four stores.
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "f"(pack.at[0]), "f"(pack.at[1]),
                 "f"(pack.at[2]), "f"(pack.at[3])
               : "memory");
#else
  *reinterpret_cast<float4*>(to) = make_float4(pack.at[0], pack.at[1], pack.at[2], pack.at[3]);
#endif
}
__device__ inline void store_whole(std::uint16_t* to, const Pack<4>& pack) {
  const float a = pack.at[0], b = pack.at[1], c = pack.at[2], d = pack.at[3];
  uint2 pairs;
  if (a == a && b == b && c == c && d == d) {
    pairs = make_uint2(bf16_pair_of_numbers(a, b), bf16_pair_of_numbers(c, d));
  } else {
    pairs = make_uint2(bf16_pair(a, b), bf16_pair(c, d));
  }
  *reinterpret_cast<uint2*>(to) = pairs;
}

/// How packs are read and written: column by column, for rows that are not aligned; at once except
/// at the row's end; or all at once, for rows that end with a pack.
enum class Access { columns, packs, whole_packs };

/// kWidth columns from `from` on, `left` of which are in the row: `fill` behind its end.
template <int kWidth, Access kAccess, class T>
__device__ Pack<kWidth> load(const T* from, std::int64_t left, float fill = 0.0f) {
  constexpr bool kWhole = kAccess == Access::whole_packs;
  Pack<kWidth> pack;
  if constexpr (kAccess != Access::columns) {
    if (left >= (kWhole ? 1 : kWidth)) {
      load_whole(pack, from);
      return pack;
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) pack.at[i] = !kWhole && i < left ? loaded(from[i]) : fill;
  return pack;
}

/// Those of them that are in the row; what is behind its end stays as it is.
template <int kWidth, Access kAccess, class T>
__device__ void store(T* to, std::int64_t left, const Pack<kWidth>& pack) {
  constexpr bool kWhole = kAccess == Access::whole_packs;
  if constexpr (kAccess != Access::columns) {
    if (left >= (kWhole ? 1 : kWidth)) return store_whole(to, pack);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (!kWhole && i < left) store_one(to + i, pack.at[i]);
  }
}

template <int kWidth>
__device__ Pack<kWidth> operator+(const Pack<kWidth>& a, const Pack<kWidth>& b) {
  Pack<kWidth> sum;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sum.at[i] = a.at[i] + b.at[i];
  return sum;
}

//--------------------------------------------------------------------------------------------------
// Sums

__device__ inline float sum_of(const Pack<4>& pack) {
  return (pack.at[0] + pack.at[1]) + (pack.at[2] + pack.at[3]);
}

/// The sum over the lanes of a warp, in all of them.
template <class S>
__device__ S sum_of_warp(S x) {
#pragma unroll
  for (int half = kWarp / 2; half > 0; half /= 2) x += __shfl_xor_sync(kAllLanes, x, half);
  return x;
}

/// Makes each of `sums` its sum over the thread block, whose x has whole warps. To be called by all
/// threads. `shared` must not be in use by a call before this that some thread may still be in: two
/// that take turns are enough.
template <int kSums, class S>
__device__ void sum_over_block(S (&sums)[kSums], S (*shared)[kMaxWarps]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    sums[i] = sum_of_warp(sums[i]);
    if (threadIdx.x % kWarp == 0) shared[i][warp] = sums[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    S sum = 0;
    for (int w = 0; w < warps; ++w) sum += shared[i][w];
    sums[i] = sum;
  }
}

inline constexpr int kFoldGroups = 32;

/// totals[c] = or += the sum over blocks of partials[block * stride + c]: of every 32nd block, then
/// over these sums, in order. The second row of thread blocks does it for `others`, whose partials
/// follow those of `totals`.
template <int kGroups>
__global__ void fold_kernel(float* totals, float* others, bool add, const float* partials,
                            std::int64_t blocks, std::int64_t stride, std::int64_t columns) {
  __shared__ float shared[kGroups][kWarp];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  if (blockIdx.y == 1) partials += blocks * stride;
  float sum = 0;
  if (c < columns) {
#pragma unroll 8
    for (std::int64_t b = threadIdx.y; b < blocks; b += kGroups) sum += partials[b * stride + c];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= columns) return;
  sum = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) sum += shared[group][threadIdx.x];
  float* const to = (blockIdx.y == 1 ? others : totals) + c;
  *to = add ? *to + sum : sum;
}

//--------------------------------------------------------------------------------------------------
// For launchers

template <class... P>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream,
            std::type_identity_t<P>... arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  kernel<<<grid, block, 0, stream>>>(arguments...);
}

/// How many blocks of `size` make up `count`.
inline std::int64_t divided_up(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}
inline unsigned blocks_for(std::int64_t count, std::int64_t size) {
  return static_cast<unsigned>(divided_up(count, size));
}
inline std::int64_t rounded_up(std::int64_t count, std::int64_t size) {
  return divided_up(count, size) * size;
}

template <class T>
Rows<T> rows_of(const MatrixView<T>& m) {
  return {m.data, m.stride};
}

/// Calls body(rows) with the rows of `f` in its storage.
template <class Body>
void with_rows(const FactorMatrix& f, const Body& body) {
  if (f.element == Element::bf16) {
    body(Rows<std::uint16_t>{static_cast<std::uint16_t*>(f.data), f.stride});
  } else {
    body(Rows<float>{static_cast<float*>(f.data), f.stride});
  }
}

/// Whether packs of 4 of these rows (of 8 in bf16, which are 16 bytes too) may be loaded whole.
inline bool is_aligned(const void* data, std::int64_t row_bytes = 0) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row_bytes % 16 == 0;
}
template <class T>
bool is_aligned(const MatrixView<T>& m) {
  return is_aligned(m.data, m.rows > 1 ? m.stride * std::int64_t{sizeof(T)} : 0);
}
template <class Void>
bool is_aligned(const FactorView<Void>& f) {
  const auto size = static_cast<std::int64_t>(size_of(f.element));
  return is_aligned(f.data, f.rows > 1 ? f.stride * size : 0);
}

/// Calls launch(constant) with an Access as a constant.
template <class Launch>
void with_access(bool aligned, bool ends_with_pack, const Launch& launch) {
  if (!aligned) {
    launch(std::integral_constant<Access, Access::columns>());
  } else if (!ends_with_pack) {
    launch(std::integral_constant<Access, Access::packs>());
  } else {
    launch(std::integral_constant<Access, Access::whole_packs>());
  }
}

/// totals (columns) from partials (blocks, stride); `others` likewise from those that follow, or
/// null.
inline void fold_partials(float* totals, float* others, Write write, const float* partials,
                          std::int64_t blocks, std::int64_t stride, std::int64_t columns,
                          cudaStream_t stream) {
  launch(fold_kernel<kFoldGroups>, dim3(blocks_for(columns, kWarp), others == nullptr ? 1 : 2),
         dim3(kWarp, kFoldGroups), stream, totals, others, write == Write::add, partials, blocks,
         stride, columns);
}

//--------------------------------------------------------------------------------------------------
// Element by element

inline constexpr int kPointwiseThreads = 256;
/// Rows of one thread: as many packs are on their way from memory at once.
inline constexpr int kPointwiseRows = 4;

/// What an Op's columns() gives that has nothing to give.
struct Nothing {};

/// Op::columns() gives what is the same in all rows, Op::load() what Op::store() makes its results
/// of. All loads come before the stores, which may be to the same places. `left` columns are from
/// c on, not counted beyond a pack.
template <class Op>
__global__ void __launch_bounds__(kPointwiseThreads)
    pointwise_kernel(Op op, std::int64_t rows, std::int64_t columns, unsigned column_blocks) {
  const unsigned row_block = blockIdx.x / column_blocks;
  const std::int64_t column_block = blockIdx.x - row_block * column_blocks;
  const std::int64_t c = (column_block * blockDim.x + threadIdx.x) * Op::kWidth;
  const std::int64_t first =
      static_cast<std::int64_t>(row_block) * kPointwiseRows * blockDim.y + threadIdx.y;
  const int step = static_cast<int>(blockDim.y);
  if (c >= columns) return;
  const auto of_columns = op.columns(c, columns - c);
  if (c + Op::kWidth <= columns && first + (kPointwiseRows - 1) * step < rows) {
    decltype(op.load(first, c, Op::kWidth)) inputs[kPointwiseRows];
#pragma unroll
    for (int i = 0; i < kPointwiseRows; ++i) inputs[i] = op.load(first + i * step, c, Op::kWidth);
#pragma unroll
    for (int i = 0; i < kPointwiseRows; ++i) {
      op.store(first + i * step, c, Op::kWidth, inputs[i], of_columns);
    }
  } else {
    for (int i = 0; i < kPointwiseRows; ++i) {
      const std::int64_t r = first + i * step;
      if (r < rows) op.store(r, c, columns - c, op.load(r, c, columns - c), of_columns);
    }
  }
}

template <class Op>
void launch_pointwise(const Op& op, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  const std::int64_t packs = divided_up(columns, Op::kWidth);
  const std::int64_t widest = rows < 4 * kPointwiseRows ? kPointwiseThreads : kPointwiseThreads / 4;
  unsigned across = 1;
  while (across < std::min(packs, widest)) across *= 2;
  const unsigned down = kPointwiseThreads / across;
  const unsigned column_blocks = blocks_for(packs, across);
  launch(pointwise_kernel<Op>, blocks_for(rows, kPointwiseRows * down) * column_blocks,
         dim3(across, down), stream, op, rows, columns, column_blocks);
}

/// Op<4, T> where everything is aligned, else Op<1, T>, made of the fields.
template <template <int, class> class Op, class T, class... Fields>
void launch_pointwise(bool aligned, std::int64_t rows, std::int64_t columns, cudaStream_t stream,
                      const Fields&... fields) {
  if (aligned) {
    launch_pointwise(Op<4, T>{fields...}, rows, columns, stream);
  } else {
    launch_pointwise(Op<1, T>{fields...}, rows, columns, stream);
  }
}

}  // namespace swarmpi::kernels::cuda
